"""Record names that contain a credential: redacted, and still comparable. Pure.

A path or a table's name may contain a credential, or a word that is a credential elsewhere. The
commit records `/landing/*** [sha256:0123456789abcdef]`: the redacted text for people, and a hash of
the true name. By the hash the next run recognises the name, whichever credentials that run knows.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from delta_pipelines.planning.skipping.dependencies import Dependencies
from delta_pipelines.security.redaction import Redaction

_RECORDED = re.compile(r".* \[(sha256:[0-9a-f]{16})\]", re.DOTALL)

V = TypeVar("V")


def recorded_name(name: str, redaction: Redaction) -> str:
    """A name without credentials; two different names stay different.

    Example:
        >>> recorded_name("/a?password=hunter22", Redaction())
        '/a?password=*** [sha256:550deae80618165f]'
    """
    redacted = redaction.text(name)
    return name if redacted == name else f"{redacted} [{_hash(name)}]"


def recorded(dependencies: Dependencies, redaction: Redaction) -> Dependencies:
    """Redact a dataset's dependencies; hashes, table ids and versions stay as they are."""

    def redacted(text: str) -> str:
        return recorded_name(text, redaction)

    def named(values: Mapping[str, V]) -> dict[str, V]:
        return {redacted(name): value for name, value in values.items()}

    return replace(
        dependencies,
        tables=named(dependencies.tables),
        views=named(dependencies.views),
        files=named(dependencies.files),
        functions=named(dependencies.functions),
        settings={redacted(name): redacted(value) for name, value in dependencies.settings.items()},
        without_version=tuple(redaction.text(text) for text in dependencies.without_version),
    )


def recognised(before: Dependencies, now: Dependencies) -> Dependencies:
    """Restore the true names in recorded dependencies.

    Args:
        before: As recorded.
        now: The dependencies now, with true names.

    Returns:
        `before`, where only names that are not in `now` stay redacted.
    """
    return replace(
        before,
        tables=_recognised(before.tables, now.tables),
        views=_recognised(before.views, now.views),
        files=_recognised(before.files, now.files),
        functions=_recognised(before.functions, now.functions),
        settings={
            name: _true(value, (now.settings[name],)) if name in now.settings else value
            for name, value in _recognised(before.settings, now.settings).items()
        },
    )


def _recognised(before: Mapping[str, V], now: Mapping[str, object]) -> dict[str, V]:
    return {_true(name, now): value for name, value in before.items()}


def _true(text: str, candidates: Mapping[str, object] | tuple[str, ...]) -> str:
    found = _RECORDED.fullmatch(text)
    if found is None or text in candidates:
        return text
    return next((true for true in candidates if _hash(true) == found[1]), text)


def _hash(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:16]}"
