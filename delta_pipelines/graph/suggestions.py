"""Suggest names for a misspelt name."""

import difflib
from collections.abc import Iterable


def suggestion(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name.

    Args:
        known: Existing names.

    Returns:
        `; did you mean 'x'?`, or a full stop and the existing names.

    Example:
        >>> suggestion("flihgts", ["flights", "planes"])
        "; did you mean 'flights'?"
    """
    names = sorted(set(known))
    folded = {candidate.lower(): candidate for candidate in names}
    close = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {folded[close[0]]!r}?"
    if not names:
        return "; the pipeline declares no dataset to read."
    listed = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return f". It has: {listed}."
