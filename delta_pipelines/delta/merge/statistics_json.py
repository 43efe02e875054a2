"""Change a file's statistics as text, without parsing their numbers.

Delta parses the numbers as doubles, which rounds decimals of more than about 15 digits; with a
minimum above the true value, readers skip a file that they need.
"""

import json
import re
from decimal import Decimal

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]')
_VALUE = re.compile(r"\s*:\s*(true|false|null)")
_BOUNDS = '"tightBounds"'


def with_wide_bounds(statistics: str) -> str:
    """Set `tightBounds` to false: the file may have fewer rows than its statistics say.

    Args:
        statistics: A JSON object. Columns may have any name, so only its outermost keys count.

    Example:
        >>> with_wide_bounds('{"numRecords":2,"minValues":{"d":0.10},"tightBounds":true}')
        '{"numRecords":2,"minValues":{"d":0.10},"tightBounds":false}'
    """
    depth = 0
    for token in _TOKEN.finditer(statistics):
        text = token.group()
        if text in "{[":
            depth += 1
        elif text in "}]":
            depth -= 1
        elif depth == 1 and text == _BOUNDS:
            value = _VALUE.match(statistics, token.end())
            if value is not None:
                return f"{statistics[: value.start(1)]}false{statistics[value.end(1) :]}"
    end = statistics.rindex("}")
    before = statistics[:end].rstrip()
    comma = "" if before.endswith("{") else ","
    return f"{before}{comma}{_BOUNDS}:false{statistics[end:]}"


def have_equal_values(left: str, right: str) -> bool:
    """True when two JSON objects have the same values, in any notation of their numbers.

    Example:
        >>> have_equal_values('{"d":0.10}', '{"d":0.1}')
        True
        >>> have_equal_values('{"d":0.1}', '{"d":0.11}')
        False
    """
    left_values, right_values = (json.loads(text, parse_float=Decimal) for text in (left, right))
    return bool(left_values == right_values)
