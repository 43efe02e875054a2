"""Keys of a source in the type of the target's column. Pure.

Two sides of different types are compared in the wider type: then the column is inside a cast, and
the files' statistics cannot be used. A key that the column's type can represent is converted to
that type; any other key cannot match.
"""

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from delta_pipelines.delta.merge.key_ranges import Key, KeyRange

_BITS = {"byte": 7, "short": 15, "integer": 31, "long": 63}
_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 19}
_RANGED = (*_BITS, "decimal", "date", "string")
_EXACT = 2**53
"""From here on, several integers are the same DOUBLE."""


@dataclass(frozen=True)
class KeyType:
    """A column's type.

    Args:
        name: Spark's name of the type, without digits: `long`, `decimal`.
        digits: Precision of a decimal.
        scale: Scale of a decimal.
    """

    name: str
    digits: int = 0
    scale: int = 0

    @classmethod
    def of(cls, type_name: str) -> "KeyType":
        """Parse a type's name.

        Example:
            >>> KeyType.of("decimal(12,2)")
            KeyType(name='decimal', digits=12, scale=2)
        """
        name, _, rest = type_name.partition("(")
        digits, _, scale = rest.rstrip(")").partition(",")
        return cls(name, int(digits or 0), int(scale or 0))

    @property
    def is_ranged(self) -> bool:
        """True when ranges of its values are supported."""
        return self.name in _RANGED

    @property
    def is_whole(self) -> bool:
        """True for integers."""
        return self.name in _BITS

    @property
    def is_counted(self) -> bool:
        """True for integers and dates."""
        return self.is_whole or self.name == "date"

    @property
    def is_number(self) -> bool:
        """True for integers and decimals."""
        return self.is_whole or self.name == "decimal"

    def widens_to(self, other: "KeyType") -> bool:
        """True when a cast to another type keeps different values different, up to `_EXACT`.

        Args:
            other: The type in which the column is compared.

        Example:
            >>> KeyType.of("long").widens_to(KeyType.of("double"))
            True
        """
        if self == other:
            return True
        room = other.digits - other.scale
        if self.is_whole:
            wider = _BITS.get(other.name, 0) > _BITS[self.name] or other.name == "double"
            return wider or (other.name == "decimal" and room >= _DIGITS[self.name])
        if self.name == other.name == "decimal":
            return other.scale >= self.scale and room >= self.digits - self.scale
        return False

    def of_value(self, value: Any) -> Key | None:
        """Convert a value of a wider type to this type; None when this type has no such value.

        Args:
            value: Not NULL.

        Raises:
            ValueError: Several values of this type are equal to it.

        Example:
            >>> KeyType.of("integer").of_value(7.0), KeyType.of("integer").of_value(7.5)
            (7, None)
        """
        if not self.is_number:
            key: Key = value
            return key
        if not math.isfinite(value):
            return None
        units = Fraction(value) * 10**self.scale
        number = int(units)
        if number != units or not -self._most - self.is_whole <= number <= self._most:
            return None
        self._check_exact(value)
        return self._of_units(number)

    def within(self, low: Any, high: Any) -> KeyRange | None:
        """The range of this type between two values of a wider type; None when it is empty.

        Args:
            low: The smallest value, included.
            high: The largest value, included.

        Raises:
            ValueError: Several values of this type are equal to a bound.

        Example:
            >>> KeyType.of("byte").within(-3, 1000)
            KeyRange(low=-3, high=127)
        """
        if not self.is_number:
            return KeyRange(low, high)
        self._check_exact(low)
        self._check_exact(high)
        first = max(math.ceil(Fraction(low) * 10**self.scale), -self._most - self.is_whole)
        last = min(math.floor(Fraction(high) * 10**self.scale), self._most)
        if first > last:
            return None
        return KeyRange(self._of_units(first), self._of_units(last))

    @property
    def _most(self) -> int:
        """The largest value, in units of the last digit."""
        base, exponent = (2, _BITS[self.name]) if self.is_whole else (10, self.digits)
        return int(base**exponent) - 1

    def _of_units(self, number: int) -> int | Decimal:
        if self.is_whole:
            return number
        digits = tuple(int(digit) for digit in str(abs(number)))
        return Decimal((int(number < 0), digits, -self.scale))  # arithmetic would round

    def _check_exact(self, value: Any) -> None:
        if self.name == "long" and isinstance(value, float) and abs(value) >= _EXACT:
            raise ValueError(f"several integers are equal to {value!r}")
