"""The checkpoints of a table's streams, recorded in the table's properties.

A flow's checkpoint has its own id, and the table's properties name the valid id. A full refresh
gives every flow a new checkpoint in the commit that replaces (or wipes) the rows. So after any
crash the table has the checkpoints that belong to its rows. The properties also
record the sources of the checkpoint, to notice a source that was wiped or dropped and created
again, and the columns of the flow, to notice a column that it no longer has.

Nothing is read or written here; but ids are random, and an epoch is the current time.
"""

import hashlib
import json
import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from delta_pipelines.errors import DatasetError
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.stored_values import (
    MalformedValueError,
    optional,
    shown,
    stored_fields,
    stored_flow,
    stored_id,
    stored_json,
    stored_list,
    stored_mapping,
    stored_number,
    stored_object,
    stored_text,
)
from delta_pipelines.model.table_state import TableState

CHECKPOINTS_KEY = "delta_pipelines.checkpoints"
REPLACED_KEY = "delta_pipelines.replaced_checkpoints"
EPOCH_KEY = "delta_pipelines.epoch"
_FOLDER = "folder:"
MAX_REPLACED = 100
"""The most replaced checkpoints that a table records; the newest ones."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StreamSource:
    """The table or folder that a checkpoint's offsets belong to.

    Args:
        table_id: Delta's id of the source table; for a folder of files a hash of its path.
        epoch: Grows with every full refresh of that table; for a folder the number of its stream.
    """

    table_id: str
    epoch: int = 0

    @classmethod
    def of(cls, state: TableState) -> "StreamSource":
        """A table as a stream reads it now.

        Raises:
            DatasetError: Its epoch is malformed.
        """
        return cls(state.table_id, epoch_of(state.properties, state.identifier))

    @classmethod
    def parse(cls, value: object) -> "StreamSource":
        """Read one source from the JSON of a table's property.

        Raises:
            MalformedValueError: It is not what this package writes.
        """
        known = {"table_id": stored_text, "epoch": stored_number}
        given = stored_fields(value, known)
        if "table_id" not in given:
            raise MalformedValueError("a source has no table_id")
        return cls(**given)

    @classmethod
    def of_folder(cls, path: str, number: int) -> "StreamSource":
        """A folder of files; its path is hashed, because it may contain a credential.

        Args:
            number: The stream's number, by which Spark finds the files that it has read.
        """
        return cls(f"{_FOLDER}{hashlib.sha256(path.encode()).hexdigest()[:32]}", number)

    @property
    def is_folder(self) -> bool:
        """True for a folder of files."""
        return self.table_id.startswith(_FOLDER)


@dataclass(frozen=True)
class Checkpoint:
    """One flow's checkpoint.

    Args:
        id: Part of its path, and of the application id by which each batch is written only once.
        sources: Qualified name -> the source when the checkpoint was created.
        run: Id of the run that created it; a retry of that run does not create another one.
        columns: Last columns of the flow, from `flow_definition.given_columns`; None when they
            were not recorded.
    """

    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    sources: Mapping[str, StreamSource] = field(default_factory=dict)
    run: str | None = None
    columns: tuple[str, ...] | None = None

    @classmethod
    def parse(cls, value: object) -> "Checkpoint":
        """Read one checkpoint from the JSON of a table's property.

        Raises:
            MalformedValueError: It is not what this package writes.
        """
        known: dict[str, Any] = {
            "id": stored_id,
            "sources": lambda sources: stored_mapping(sources, StreamSource.parse),
            "run": optional(stored_text),
            "columns": optional(lambda columns: stored_list(columns, stored_text)),
        }
        given = stored_fields(value, known)
        if "id" not in given:
            raise MalformedValueError("a checkpoint has no id")
        return cls(**given)

    def path(self, storage: str, table: Identifier, flow: str) -> str:
        """Its path for Spark, under a storage root."""
        return f"{checkpoints_folder(storage, table, flow)}/{self.id}"

    def application(self, table_id: str, flow: str) -> str:
        """The application id of its batches; unique to the checkpoint and the table."""
        return f"delta_pipelines/{table_id}/{flow.lower()}/{self.id}"

    def outdated(self, now: Mapping[str, StreamSource | None]) -> list[str]:
        """List the source tables that the offsets no longer belong to.

        A renamed table with the same id is the same table.

        Args:
            now: Qualified name -> source, for all tables that the flow's streams read; None for a
                table that does not exist yet.
        """
        tables = {name: was for name, was in self.sources.items() if not was.is_folder}
        ids = {source.table_id for source in now.values() if source is not None}
        known = {was.table_id for was in tables.values()}
        if now and known and not (known & ids or tables.keys() & now.keys()):
            them = "inputs" if len(tables) > 1 else "input"
            were = "were" if len(tables) > 1 else "was"
            before, after = ", ".join(sorted(tables)), ", ".join(sorted(now))
            return [f"its stream {them} {before} {were} replaced by {after}"]
        by_id = {source.table_id: source for source in now.values() if source is not None}
        renamed = {was.table_id for name, was in tables.items() if name in now}
        changes = []
        for name, was in tables.items():
            if name not in now and was.table_id in renamed:
                continue
            source = now.get(name) or by_id.get(was.table_id)
            if source is None or source == was:
                continue
            recreated = source.table_id != was.table_id
            how = "dropped and created again" if recreated else "refreshed fully"
            changes.append(f"its stream input {name} was {how}")
        return changes

    def moved(self, now: Mapping[str, StreamSource]) -> dict[str, int]:
        """List the replaced folders of files; Spark reads all files of another folder as new.

        Args:
            now: Redacted name -> source, for all folders that the flow's streams read.

        Returns:
            Description of the replacement -> the number of the stream.
        """
        had = {was.epoch: (name, was) for name, was in self.sources.items() if was.is_folder}
        moves = {}
        for name, folder in now.items():
            before, was = had.get(folder.epoch, (name, folder))
            if was != folder:
                what = f"the folder {before} that its stream reads was replaced by {name}"
                moves[f"{what} (Spark would read all files there as new)"] = folder.epoch
        return moves


def checkpoints_root(storage: str) -> str:
    """The folder of all checkpoints under a storage root; nothing outside of it is ever deleted."""
    return f"{storage.rstrip('/')}/_checkpoints"


def checkpoints_folder(storage: str, table: Identifier, flow: str) -> str:
    """The folder of a flow's checkpoints, old ones included."""
    return f"{checkpoints_root(storage)}/{table.plain}/{flow.lower()}"


def checkpoints_of(properties: Mapping[str, str]) -> dict[str, Checkpoint]:
    """The checkpoints in a table's properties, by the flow's name in lower case.

    Args:
        properties: The table's; everyone with write access may have changed them.

    Raises:
        DatasetError: The property is malformed.

    Example:
        >>> text = '{"flights": {"id": "0123456789abcdef0123456789abcdef", "sources": {}}}'
        >>> checkpoints_of({CHECKPOINTS_KEY: text})["flights"].id
        '0123456789abcdef0123456789abcdef'
    """
    try:
        listed = stored_object(stored_json(properties.get(CHECKPOINTS_KEY, "{}")))
        return {stored_flow(flow): Checkpoint.parse(entry) for flow, entry in listed.items()}
    except MalformedValueError as error:
        raise DatasetError(
            f"table property {CHECKPOINTS_KEY!r} is malformed, so the checkpoints of its streams "
            f"are not known: {error}. Nothing was read or written. Ways out: set the property to "
            f"what it was (SHOW TBLPROPERTIES and DESCRIBE HISTORY show who changed it); refresh "
            f"the table fully; or unset it (ALTER TABLE ... UNSET TBLPROPERTIES "
            f"('{CHECKPOINTS_KEY}')), and then the streams are read from their beginning."
        ) from error


def checkpoints_property(checkpoints: Mapping[str, Checkpoint]) -> dict[str, str]:
    """The table property with these checkpoints."""
    entries = {flow: asdict(checkpoint) for flow, checkpoint in checkpoints.items()}
    return {CHECKPOINTS_KEY: json.dumps(entries, sort_keys=True)}


def replaced_checkpoints(properties: Mapping[str, str]) -> dict[str, int]:
    """Replaced checkpoints: `flow/id` -> time of the replacement, in ms since 1970.

    They are only a hint of what can be deleted. Malformed entries are left out with a warning, and
    so is a checkpoint that is still valid.

    Args:
        properties: The table's; everyone with write access may have changed them.
    """
    try:
        listed = stored_object(stored_json(properties.get(REPLACED_KEY, "{}")))
    except MalformedValueError as error:
        log.warning("Table property %r is ignored: %s.", REPLACED_KEY, error)
        return {}
    found, counting = {}, _named(properties)
    for name, when in listed.items():
        flow, _, checkpoint = name.partition("/")
        try:
            entry = f"{stored_flow(flow)}/{stored_id(checkpoint)}"
            if entry in counting:
                raise MalformedValueError(f"{shown(name)} is the valid checkpoint")
            found[entry] = stored_number(when)
        except MalformedValueError as error:
            log.warning("An entry of table property %r is ignored: %s.", REPLACED_KEY, error)
    return found


def _named(properties: Mapping[str, str]) -> frozenset[str]:
    """`flow/id` of the valid checkpoints; empty when that property is malformed."""
    try:
        checkpoints = checkpoints_of(properties)
    except DatasetError as error:
        log.warning("Old checkpoints are not recorded for deletion: %s", error.message)
        return frozenset()
    return frozenset(f"{flow}/{checkpoint.id}" for flow, checkpoint in checkpoints.items())


def replaced_property(
    base: TableState | None, following: Mapping[str, Checkpoint], now_ms: int
) -> dict[str, str]:
    """The property with a table's replaced checkpoints, which can be deleted later.

    Args:
        base: The table before; the checkpoints of a copied table belong to its origin.
        following: The checkpoints that are valid from now on.
        now_ms: Milliseconds since 1970.
    """
    if base is None or base.is_copy:
        return {REPLACED_KEY: "{}"} if base and REPLACED_KEY in base.properties else {}
    count = {f"{flow}/{checkpoint.id}" for flow, checkpoint in following.items()}
    gone = dict.fromkeys(_named(base.properties) - count, now_ms)
    found = {**replaced_checkpoints(base.properties), **gone}
    newest = dict(sorted(found.items(), key=lambda entry: entry[1])[-MAX_REPLACED:])
    if newest or REPLACED_KEY in base.properties:
        return {REPLACED_KEY: json.dumps(newest, sort_keys=True)}
    return {}


def epoch_of(properties: Mapping[str, str], table: Identifier | None = None) -> int:
    """A number that grows with every full refresh of a table that keeps its rows.

    Args:
        properties: The table's; everyone with write access may have changed them.
        table: For the message, when the table is not the dataset that is refreshed.

    Raises:
        DatasetError: The property is malformed.
    """
    try:
        return stored_number(stored_json(properties.get(EPOCH_KEY, "0")))
    except MalformedValueError as error:
        where = f" of table {table}" if table is not None else ""
        raise DatasetError(
            f"property {EPOCH_KEY!r}{where} is malformed, so it is unknown whether its rows were "
            f"refreshed fully since they were read: {error}. Nothing was read or written. Ways "
            f"out: set the property to what it was, or refresh that table fully."
        ) from error


def next_epoch(properties: Mapping[str, str]) -> dict[str, str]:
    """The property after one more full refresh.

    The value is the current time, so a table that was restored to an older version does not get an
    earlier epoch again.
    """
    try:
        before = epoch_of(properties)
    except DatasetError:
        before = 0
    return {EPOCH_KEY: str(max(before + 1, int(time.time() * 1000)))}


def next_checkpoints(
    current: Mapping[str, Checkpoint],
    sources: Mapping[str, Mapping[str, StreamSource]],
    *,
    restarted: Sequence[str],
    run: str | None = None,
    columns: Mapping[str, tuple[str, ...]] | None = None,
) -> dict[str, Checkpoint]:
    """The checkpoints of a table's next refresh.

    Checkpoints of flows that are no longer declared stay: when such a flow is declared again, it
    continues where it was.

    Args:
        sources: Flow -> the sources of its streams now.
        restarted: Flows that read from the beginning.
        run: Id of this run.
        columns: Flow -> its columns now; a flow that is not named keeps its recorded columns.
    """
    following = dict(current)
    for flow, reads in sources.items():
        had = current.get(flow)
        if had is None or flow in restarted:
            following[flow] = Checkpoint(
                sources=dict(reads), run=run, columns=had.columns if had else None
            )
        else:
            following[flow] = replace(had, sources=_followed(had.sources, reads))
    return with_columns(following, columns or {})


def _followed(
    had: Mapping[str, StreamSource], reads: Mapping[str, StreamSource]
) -> Mapping[str, StreamSource]:
    """Sources of a flow that goes on: tables also from earlier runs, folders only of this run."""
    folders = {name: source for name, source in reads.items() if source.is_folder}
    tables = {name: source for name, source in had.items() if not source.is_folder}
    return {**reads, **tables, **folders} if folders else {**reads, **had}


def with_columns(
    checkpoints: Mapping[str, Checkpoint], columns: Mapping[str, tuple[str, ...]]
) -> dict[str, Checkpoint]:
    """The checkpoints with the columns of their flows now; other flows keep their columns."""
    return {
        flow: replace(checkpoint, columns=columns.get(flow, checkpoint.columns))
        for flow, checkpoint in checkpoints.items()
    }
