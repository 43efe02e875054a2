"""A file's statistics as the text that the log has: changed without reading its numbers.

Delta reads them into doubles when it changes them, which rounds a decimal of more than some 15
digits; a minimum above the true one makes readers skip a file that they need.
"""

import json
import re
from decimal import Decimal

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]')
_VALUE = re.compile(r"\s*:\s*(true|false|null)")
_BOUNDS = '"tightBounds"'


def with_wide_bounds(statistics: str) -> str:
    """The same statistics, of a file that may have fewer rows than they tell of.

    Args:
        statistics: A JSON object. Columns may have any name, so that only its outermost keys count.

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


def tell_the_same(one: str, other: str) -> bool:
    """True when two texts hold the same values, whatever their numbers look like.

    Args:
        one: A JSON object.
        other: Another one.

    Example:
        >>> tell_the_same('{"d":0.10}', '{"d":0.1}'), tell_the_same('{"d":0.1}', '{"d":0.11}')
        (True, False)
    """
    first, second = (json.loads(text, parse_float=Decimal) for text in (one, other))
    return bool(first == second)
