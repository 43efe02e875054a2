"""Texts that no catalog, file or event log can keep."""

import re
from collections.abc import Iterator

from delta_pipelines.model.declarations import Declaration

_IMPOSSIBLE = re.compile("[\x00\ud800-\udfff]")


def text_problem(what: str, text: str) -> str | None:
    """Say that a text holds a NUL or half of a surrogate pair, or None.

    Args:
        what: What the text is.
        text: Any text of a declaration.

    Example:
        >>> text_problem("comment", "fine") is None
        True
    """
    if not _IMPOSSIBLE.search(text):
        return None
    return (
        f"{what} {text[:60]!a} holds a character that no catalog or file can keep "
        f"(NUL, or half of a surrogate pair); take it out."
    )


def text_problems(declaration: Declaration) -> list[str]:
    """Every text of a declaration, besides its names, that cannot be kept, as sentences.

    Args:
        declaration: The dataset.
    """
    found = (text_problem(what, text) for what, text in _texts(declaration))
    return [problem for problem in found if problem]


def _texts(declaration: Declaration) -> Iterator[tuple[str, str]]:
    upsert, query = declaration.upsert, declaration.query
    yield from (
        (what, text)
        for what, text in (
            ("comment", declaration.comment),
            ("group", declaration.group),
            ("the SQL text", query.sql if query else None),
            ("sequence_by", upsert.sequence_by if upsert else None),
            ("deletes_when", upsert.deletes_when if upsert else None),
        )
        if text
    )
    for what, texts in (
        ("key", upsert.keys if upsert else ()),
        ("partition column", declaration.partition_cols),
        ("cluster column", declaration.cluster_by),
        ("expectation", [t for e in declaration.expectations for t in (e.name, e.condition)]),
        ("owner", declaration.owners),
        ("tag", [*declaration.tags, *declaration.tags.values()]),
        ("property", [*declaration.table_properties, *declaration.table_properties.values()]),
        ("setting", declaration.spark_conf),
    ):
        yield from ((what, text) for text in texts)
    # A setting's value may be a credential, so the setting is named instead.
    for key, value in declaration.spark_conf.items():
        if _IMPOSSIBLE.search(value):
            yield f"the value of setting {key!r}:", "\0"
