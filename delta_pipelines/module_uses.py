"""What code uses of the modules that it names, from its compiled form."""

import dis
import operator
from collections.abc import Iterator, Sequence
from types import CodeType, ModuleType

from delta_pipelines.own_code import OwnCode

_OF_A_MODULE = ("LOAD_GLOBAL", "LOAD_NAME")
_OF_A_VALUE = ("LOAD_ATTR", "LOAD_METHOD")
_LOOK_UP = {"__dict__", "__getattribute__", "getattr", "getattr_static", "getmembers", "vars"}
_LOOK_UP |= {"attrgetter", "methodcaller"}
_LOOKING_UP = (getattr, vars, operator.attrgetter, operator.methodcaller)
UNKNOWABLE = {"__import__", "eval", "exec", "globals"}
"""Built-ins by which code reaches what it does not name."""


def names_looked_up(code: CodeType) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Names that code, or a function inside of it, looks up in its module, as often as it does.

    Args:
        code: A function's.

    Returns:
        Each with the attributes that are asked of it in a row: `acme.rules.part` gives
        `("acme", ("rules", "part"))`. One without any is passed on, compared or called.

    Example:
        >>> list(names_looked_up(compile("f(a.b.c)", "", "eval")))
        [('f', ()), ('a', ('b', 'c'))]
    """
    found: list[tuple[str, list[str]]] = []
    goes_on = False
    for step in dis.get_instructions(code):
        if step.opname in _OF_A_MODULE:
            found.append((str(step.argval), []))
            goes_on = True
        elif goes_on and step.opname in _OF_A_VALUE:
            found[-1][1].append(str(step.argval))
        elif step.opname not in ("CACHE", "EXTENDED_ARG"):
            goes_on = False
    yield from ((name, tuple(attributes)) for name, attributes in found)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_looked_up(constant)


def is_look_up(value: object) -> bool:
    """True for a name, or a function itself, by which names are looked up that stand in no code."""
    if isinstance(value, str):
        return value in _LOOK_UP
    return any(value is one or type(value) is one for one in _LOOKING_UP)


class UsedModules:
    """The modules of one author that code has met, and what it asks of them.

    Args:
        own: Whose modules count.
    """

    def __init__(self, own: OwnCode) -> None:
        self._own = own
        self._met: dict[int, ModuleType] = {}
        self._passed_on: set[int] = set()
        self._asked: set[tuple[int, str]] = set()
        self._done: set[tuple[int, str]] = set()

    def passed_on(self, module: ModuleType) -> None:
        """Note one that is a value: nobody knows where it is used.

        Args:
            module: Any; a library's is left out.
        """
        if self._own.has_module(module):
            self._met[id(module)] = module
            self._passed_on.add(id(module))

    def asked(self, module: ModuleType, attributes: Sequence[str]) -> list[str]:
        """Note what code asks of one; where no attribute follows, it is passed on.

        Args:
            module: Any; a library's is left out.
            attributes: In a row, as of `acme.rules.part`.

        Returns:
            Which modules stand for the attributes: `rules=module acme.rules`.
        """
        told: list[str] = []
        for attribute in attributes:
            if not self._own.has_module(module):
                return told
            inner = vars(module).get(attribute)
            if not isinstance(inner, ModuleType):
                self._met[id(module)] = module
                self._asked |= {(id(module), attribute), (id(module), "__getattr__")}
                return told
            told.append(f"{attribute}=module {inner.__name__}")
            module = inner
        self.passed_on(module)
        return told

    def next(self, names: set[str], *, everything: bool) -> list[tuple[ModuleType, str]]:
        """What there is of that which has been asked since the last time; by name.

        Args:
            names: Names in all of the code.
            everything: True when that code may ask for any name.
        """
        asked = set(self._asked)
        for key in self._passed_on:
            public = set(_members(self._met[key])) if everything else set()
            asked |= {(key, name) for name in {*names, *public, "__getattr__"}}
        new = {(key, name) for key, name in asked - self._done if name in vars(self._met[key])}
        self._done |= new
        met = list(self._met)

        # Sets were told in an order of their own; and modules may share a name.
        def place(one: tuple[int, str]) -> tuple[str, str, int, str]:
            module = self._met[one[0]]
            file = str(vars(module).get("__file__"))
            return module.__name__, file, met.index(one[0]), one[1]

        return [(self._met[key], name) for key, name in sorted(new, key=place)]


def _members(module: ModuleType) -> Iterator[str]:
    """What stands in a module; which parts of a package are imported is no matter of its code."""
    for name, value in vars(module).items():
        is_part = isinstance(value, ModuleType) and value.__name__ == f"{module.__name__}.{name}"
        if not name.startswith("__") and not is_part:
            yield name
