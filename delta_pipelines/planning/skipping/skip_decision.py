"""Decide whether a refresh would change anything. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from delta_pipelines.model.table_state import TableVersion
from delta_pipelines.planning.skipping.dependencies import Dependencies, LastWrite
from delta_pipelines.planning.skipping.redacted_names import recognised

DECIDED = ("materialized_view", "upsert")
"""Kinds that are skipped when nothing changed; a stream knows by itself what is new."""


@dataclass(frozen=True)
class Verdict:
    """Whether to refresh a dataset.

    Args:
        unchanged: True when a refresh would change neither its rows nor its definition.
        reason: Why; the part of a sentence after "because" when it must be refreshed.
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
    """Decide whether an existing table must be refreshed.

    Args:
        last: The commit that last changed its rows.
        now: The dependencies of a refresh now; None when they are unknown.
        changes: What a refresh would change besides rows.
        force: True when the user wants a refresh in any case.

    Example:
        >>> same = Dependencies("0123456789abcdef")
        >>> judge(LastWrite(3, ours=True, dependencies=same), same).reason
        'nothing changed since version 3'
    """
    if force:
        return Verdict(False, "`force` is set")
    if not last.ours:
        return Verdict(False, f"another writer changed its rows at version {last.version}")
    if now is None:
        return Verdict(False, "its dependencies cannot be traced in this session")
    before = last.dependencies
    if before is None:
        return Verdict(False, f"version {last.version} does not record its dependencies")
    if now.without_version:
        return Verdict(False, "; ".join(now.without_version))
    if before.without_version:
        # Its state at that time is unknown, so it may have changed since.
        listed = "; ".join(before.without_version)
        return Verdict(False, f"its last refresh had a dependency without a version ({listed})")
    if changes:
        return Verdict(False, f"its definition changed ({'; '.join(changes)})")
    difference = _difference(recognised(before, now), now)
    if difference is None:
        return Verdict(True, f"nothing changed since version {last.version}")
    return Verdict(False, difference)


def judge_overtaken(last: LastWrite, now: Dependencies | None) -> Verdict | None:
    """Decide whether to skip a table that another run refreshed since this run was planned.

    This run must not bring back older rows or columns than the other run wrote. So it skips the
    table when the two runs differ only in the versions of tables, none of which is newer in this
    run, and in the query's plan, which depends on the columns of those versions.

    Args:
        last: The commit that last changed its rows.
        now: The dependencies of a refresh now; None when they are unknown.

    Returns:
        None when this run must refresh the table.
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
        return "one of your Python files changed, which its functions may use"
    if before.libraries != now.libraries:
        return "Python or an installed library changed, which its functions may use"
    if before.engine != now.engine:
        return f"it was computed by {before.engine}, and the session has {now.engine}"
    if before.plan != now.plan:
        return "its query has another plan"
    return None


def changed(what: str, before: Mapping[str, object], now: Mapping[str, object]) -> str | None:
    """Describe the first value that changed, as a sentence; None when none did.

    Args:
        what: The kind of values: `view`, `table`, `files`, `function` or `setting`.
        before: Value by name.
        now: Value by name, now.

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
            return f"{name} was dropped and created again"
        if old.version == new.version and not old.commit:
            return f"the commit of version {old.version} of {name} was not recorded"
        if old.version == new.version:
            return (
                f"{name} was replaced by an older copy (its version {old.version} is another "
                f"commit)"
            )
        return f"{name} changed (version {old.version} -> {new.version})"
    if what == "files":
        return f"the files in {name} changed"
    if what == "setting":
        return f"the setting {name} changed ({old} -> {new})"
    return f"the {what} {name} changed"
