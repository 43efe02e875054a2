"""The text of a plan, as Spark gives it: numbers that differ from run to run, and parts left out.

Two runs of an unchanged query over unchanged inputs give the same text, in the same JVM or another:
expression ids, which Spark counts per JVM, are numbered anew. Pure.
"""

import re

_EXPRESSION_ID = re.compile(r"#(\d+)")
# Other names that Spark numbers per JVM: CTEs, variables of lambdas, columns made for an alias.
_COUNTED = re.compile(r"\b(CTERelation(?:Def|Ref) |UnionLoop(?:Ref)? |[xyz]_|_gen_alias_)(\d+)\b")
_PARTITIONS = re.compile(r", splits=Some\(\d+\)")
_CUT = re.compile(r"\.\.\. \d+ more (?:fields|characters)|Truncated plan of ")


def is_cut(text: str) -> bool:
    """True when Spark left out a part, because of its limits for fields or characters.

    A text of the user's that says so too is taken for cut.

    Args:
        text: Of a plan or a type.

    Example:
        >>> is_cut("Project [array(1, 2, ... 35 more fields) AS a#1]")
        True
    """
    return _CUT.search(text) is not None


def normalised(text: str, ids: range) -> str:
    """A plan's text with its expression ids numbered in the order they appear.

    Args:
        text: `treeString` of the plan.
        ids: Those that the plan's analysis gave; others stand in texts of the user's.

    Example:
        >>> normalised("Project [a#31, concat(b#30, #7)]", range(20, 40))
        'Project [a#0, concat(b#1, #7)]'
    """
    numbers: dict[str, int] = {}
    counted: dict[str, int] = {}

    def renumbered(match: re.Match[str]) -> str:
        if int(match[1]) not in ids:
            return match[0]
        return f"#{numbers.setdefault(match[1], len(numbers))}"

    def recounted(match: re.Match[str]) -> str:
        kind = match[1].replace("Def", "").replace("Ref", "")
        return f"{match[1]}{counted.setdefault(kind + match[2], len(counted))}"

    return _PARTITIONS.sub("", _COUNTED.sub(recounted, _EXPRESSION_ID.sub(renumbered, text)))
