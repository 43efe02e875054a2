"""The decision whether a refresh would change anything. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from delta_pipelines.model.table_state import TableVersion
from delta_pipelines.planning.skipping.dependencies import Dependencies, LastWrite
from delta_pipelines.planning.skipping.redacted_names import recognised

DECIDED = ("materialized_view", "upsert")
"""Kinds that are left alone when nothing changed; a stream knows by itself what is new."""


@dataclass(frozen=True)
class Verdict:
    """Whether to refresh a dataset.

    Args:
        unchanged: True when its rows and definition are what a refresh would make.
        reason: Why; the part of a sentence behind "because" when it is to be refreshed.
    """

    unchanged: bool
    reason: str


def judge(
    last: LastWrite,
    now: Dependencies | None,
    *,
    changes: Sequence[str] = (),
    force: bool = False,
) -> Verdict:
    """Decide whether a table that exists is to be refreshed.

    Args:
        last: The commit that last changed its rows.
        now: What its rows would depend on; None when that cannot be told.
        changes: What a refresh would change besides rows.
        force: True when the user wants a refresh in any case.

    Example:
        >>> same = Dependencies("0123456789abcdef")
        >>> judge(LastWrite(3, ours=True, dependencies=same), same).reason
        'nothing changed since version 3'
    """
    if force:
        return Verdict(False, "that was forced")
    if not last.ours:
        return Verdict(False, f"somebody else changed its rows at version {last.version}")
    if now is None:
        return Verdict(False, "this session cannot tell what its rows depend on")
    before = last.dependencies
    if before is None:
        return Verdict(False, f"version {last.version} does not say what its rows depended on")
    if now.without_version:
        return Verdict(False, "; ".join(now.without_version))
    if before.without_version:
        # What it was then cannot be known, so that it may have changed since.
        said = "; ".join(before.without_version)
        return Verdict(False, f"its last refresh depended on what has no version ({said})")
    if changes:
        return Verdict(False, f"its definition changed ({'; '.join(changes)})")
    difference = _difference(recognised(before, now), now)
    if difference is None:
        return Verdict(True, f"nothing changed since version {last.version}")
    return Verdict(False, difference)


def judge_overtaken(last: LastWrite, now: Dependencies | None) -> Verdict | None:
    """Decide whether a table is left to a run that refreshed it since this run was planned.

    Rows of older versions than that run read are not to come back, nor columns that it gave the
    table because they are new in an input. What differs may so be the versions of tables, of which
    none is newer now, and the query's plan, which shows the columns of those versions.

    Args:
        last: The commit that last changed its rows.
        now: What its rows would depend on; None when that cannot be told.

    Returns:
        None when this run has something to add.
    """
    before = last.dependencies
    if not last.ours or before is None or now is None or now.without_version:
        return None
    before = recognised(before, now)
    if now.tables.keys() != before.tables.keys():
        return None
    if _difference(before, replace(now, tables=before.tables, plan=before.plan)) is not None:
        return None
    pairs = [(read, before.tables[name]) for name, read in now.tables.items()]
    if any(n.table_id != b.table_id or n.version > b.version for n, b in pairs):
        return None
    if any(n.version == b.version and n.commit != b.commit for n, b in pairs):
        return None
    if not any(n.version < b.version for n, b in pairs):
        return None
    return Verdict(True, "another run refreshed it from later versions of its inputs")


def _difference(before: Dependencies, now: Dependencies) -> str | None:
    if before.definition != now.definition:
        return "its definition changed"
    for what, old, new in (
        ("view", before.views, now.views),
        ("table", before.tables, now.tables),
        ("files", before.files, now.files),
        ("function", before.functions, now.functions),
        ("setting", before.settings, now.settings),
    ):
        difference = changed(what, old, new)
        if difference:
            return difference
    if before.modules != now.modules:
        return "a Python file of yours changed, which its functions may use"
    if before.libraries != now.libraries:
        return "Python or an installed library changed, which its functions may use"
    if before.engine != now.engine:
        return f"it was computed by {before.engine} and would be by {now.engine}"
    if before.plan != now.plan:
        return "its query gives another plan"
    return None


def changed(what: str, before: Mapping[str, object], now: Mapping[str, object]) -> str | None:
    """Tell the first of two sets of values that changed, as a sentence; None when none did.

    Args:
        what: What they are: `view`, `table`, `files`, `function` or `setting`.
        before: Value by name.
        now: The same, now.

    Example:
        >>> changed("setting", {"a": "1"}, {"a": "2"})
        'the setting a changed (1 -> 2)'
    """
    name = next((n for n in sorted({*before, *now}) if before.get(n) != now.get(n)), None)
    if name is None:
        return None
    old, new = before.get(name), now.get(name)
    if what in ("view", "table", "function") and (old is None or new is None):
        return f"it reads {name} {'now' if old is None else 'no longer'}"
    if isinstance(old, TableVersion) and isinstance(new, TableVersion):
        if old.table_id != new.table_id:
            return f"{name} was made anew"
        if old.version == new.version and not old.commit:
            return f"it is not recorded which commit of {name} was its version {old.version}"
        if old.version == new.version:
            return f"{name} was put back from a copy (its version {old.version} is another commit)"
        return f"{name} changed (version {old.version} -> {new.version})"
    if what == "files":
        return f"the files in {name} changed"
    if what == "setting":
        return f"the setting {name} changed ({old} -> {new})"
    return f"the {what} {name} changed"
