"""The text of a plan, as Spark gives it: numbers that differ from run to run, and parts left out.

Two runs of an unchanged query over unchanged inputs give the same text, in the same JVM or another.
Pure.
"""

import re

FIRST_ID = 10**12
"""Spark's numbers for the parts of a plan begin here (`expression_ids.py`)."""
_ID = r"1000\d{9}"
_NUMBER = re.compile(rf"(#|_gen_alias_|(?:CTERelation|UnionLoop)(?:Def|Ref)? )({_ID})(?!\d)")
_LAMBDA_VARIABLE = re.compile(rf"\blambda ([xyz]_)\d+(?=#{_ID}(?!\d))")
_TEMPORARY_VIEW = re.compile(r"\b_pyspark_[0-9a-f]{32}\b")
_PARTITIONS = re.compile(r", splits=Some\(\d+\)")
_OBSERVED = re.compile(r"^(\W*CollectMetrics .*), \d+$", re.MULTILINE)
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


def normalised(text: str) -> str:
    """A plan's text with the numbers of its parts counted from 0, in the order they appear.

    Args:
        text: `treeString` of the plan. What it says of literals is not changed in a way that
            matters: they are hashed by themselves.

    Example:
        >>> normalised("Project [a#1000000000031, concat(b#1000000000030, #7)]")
        'Project [a#0, concat(b#1, #7)]'
    """
    numbers: dict[str, int] = {}

    def renumbered(match: re.Match[str]) -> str:
        kind = "part" if match[1].endswith(" ") else "expression"
        number = numbers.setdefault(f"{kind} {match[2]}", len(numbers))
        return f"{match[1]}{number}"

    text = _LAMBDA_VARIABLE.sub(r"lambda \1", text)
    text = _NUMBER.sub(renumbered, text)
    text = _TEMPORARY_VIEW.sub("_pyspark_", text)
    return _OBSERVED.sub(r"\1", _PARTITIONS.sub("", text))
