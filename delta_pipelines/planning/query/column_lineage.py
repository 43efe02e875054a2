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
"""Column -> what it is computed from; nothing for constants and tables read without declaration."""


def column_lineage(
    graph: Graph, queries: "Sequence[tuple[DataFrame, Mapping[str, Identifier]]]"
) -> ColumnLineage | None:
    """Tell a dataset's column lineage, through temporary views; runs nothing.

    Args:
        graph: The pipeline's graph.
        queries: The analysed query of each of its flows, and which input each alias in it stands
            for.

    Returns:
        None when it is not known of one of them. Where flows spell a column in different letters,
        the first spelling stands for all.
    """
    spelled: dict[str, str] = {}
    merged: dict[str, tuple[ColumnOrigin, ...]] = {}
    for frame, markers in queries:
        # Datasets that no other session knows are looked through.
        shown = {m: i for m, i in markers.items() if graph[i].kind != "temporary_view"}
        try:
            origins_by_column = column_origins(frame, shown)
        except Exception as error:  # noqa: BLE001 - its trace is logged, without credentials
            # A plan that can be made must not fail because lineage is out of reach.
            log.warning("cannot tell the origins of columns")
            log_trace(log, frame.sparkSession, error)
            origins_by_column = None
        if origins_by_column is None:
            return None
        for column, origins in origins_by_column.items():
            named = {ColumnOrigin(shown[marker], origin) for marker, origin in origins}
            name = spelled.setdefault(column.lower(), column)
            merged[name] = tuple(sorted({*merged.get(name, ()), *named}, key=str))
    return merged
