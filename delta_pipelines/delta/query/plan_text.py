"""Normalise the text of a plan: replace numbers that differ between runs.

Two runs of an unchanged query over unchanged inputs give the same text, in the same JVM or another
one. Pure.
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
    """Say whether Spark truncated a text, because of its limits for fields or characters.

    A user's text that looks like such a cut counts as cut.

    Args:
        text: Text of a plan or a type.

    Example:
        >>> is_cut("Project [array(1, 2, ... 35 more fields) AS a#1]")
        True
    """
    return _CUT.search(text) is not None


def normalised(text: str) -> str:
    """Renumber the parts of a plan's text from 0, in order of appearance.

    Args:
        text: `treeString` of the plan. It may change literals in the text, which is harmless
            because literals are hashed separately.

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
