"""Column lineage: which columns of its inputs each column of a dataset is computed from."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from delta_pipelines.delta.jvm.sessions import log_trace
from delta_pipelines.delta.query.column_origins import column_origins
from delta_pipelines.graph.graph import Graph
from delta_pipelines.model.identifiers import Identifier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ColumnOrigin:
    """A column of an input.

    Args:
        identifier: A table, persisted view or source.
        column: Its name there.
    """

    identifier: Identifier
    column: str


ColumnLineage: TypeAlias = Mapping[str, tuple[ColumnOrigin, ...]]
"""Column -> its origins; empty for constants and for tables that are read without declaration."""


def column_lineage(
    graph: Graph, queries: "Sequence[tuple[DataFrame, Mapping[str, Identifier]]]"
) -> ColumnLineage | None:
    """Compute a dataset's column lineage, through temporary views; run nothing.

    Args:
        queries: The analysed query of each of its flows, and the input of each alias in it.

    Returns:
        None when the lineage of one query is unknown. Where flows spell a column in different
        letter case, the first spelling is used.
    """
    spelled: dict[str, str] = {}
    merged: dict[str, tuple[ColumnOrigin, ...]] = {}
    for frame, markers in queries:
        # Temporary views are known to no other session; the lineage goes through them.
        shown = {m: i for m, i in markers.items() if graph[i].kind != "temporary_view"}
        try:
            origins_by_column = column_origins(frame, shown)
        except Exception as error:  # noqa: BLE001 - its trace is logged, without credentials
            # Missing lineage must not make a plan fail.
            log.warning("The column lineage of a query cannot be computed; it is left out.")
            log_trace(log, frame.sparkSession, error)
            origins_by_column = None
        if origins_by_column is None:
            return None
        for column, origins in origins_by_column.items():
            named = {ColumnOrigin(shown[marker], origin) for marker, origin in origins}
            name = spelled.setdefault(column.lower(), column)
            merged[name] = tuple(sorted({*merged.get(name, ()), *named}, key=str))
    return merged
