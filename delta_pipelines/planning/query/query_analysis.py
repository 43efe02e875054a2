"""Analyse the queries of flows: their columns, their inputs and the versions of these."""

from collections.abc import Iterable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from delta_pipelines.delta.jvm.sessions import active
from delta_pipelines.delta.jvm.signatures import unavailable
from delta_pipelines.delta.query.relations import Relation, relations
from delta_pipelines.delta.startup.expression_ids import number_from_high
from delta_pipelines.graph.graph import Flow, Graph, Source, View
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.partition_range import PartitionRange
from delta_pipelines.planning.query.declared_inputs import (
    InputVersion,
    check_inputs_read,
    outside_inputs,
    refusing_unwritten_datasets,
)
from delta_pipelines.planning.query.input_binding import Binder, flow_session
from delta_pipelines.planning.query.table_versions import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class AnalysedFlow:
    """A flow whose query Spark has analysed.

    Attributes:
        session: The session of the flow, with its settings.
        frame: The query.
        read: The relations in its plan.
        markers: Marker in the query's plan -> the input that it stands for.
        text: The query's SQL text with these markers; empty for a function.
        inputs: What it reads: declared inputs first, then files and undeclared tables.
    """

    session: "SparkSession"
    frame: "DataFrame"
    read: list[Relation]
    markers: Mapping[str, Identifier]
    text: str
    inputs: tuple[InputVersion, ...] = ()


class FlowAnalysis:
    """Analyses queries against what exists.

    Args:
        spark: The session that is copied for each flow.
        tables: The existing tables, and those that this run will write.
        partitions: A range for each table with partitions, to analyse its query with.
    """

    def __init__(
        self,
        graph: Graph,
        spark: "SparkSession",
        tables: Tables,
        partitions: Mapping[Identifier, PartitionRange],
    ) -> None:
        self._graph = graph
        self._spark = spark
        self._tables = tables
        self._partitions = partitions
        self._names = {
            str(dataset.identifier.plain): dataset.identifier
            for dataset in (*graph.tables, *graph.persisted_views, *graph.sources)
        }
        self._submitted: dict[tuple[Identifier, str], Future[AnalysedFlow]] = {}

    def begin(self, flows: Iterable[Flow], threads: Executor | None) -> None:
        """Start to analyse the queries that read no dataset: they need no table.

        Args:
            flows: The flows that `of` will be called for.
            threads: From `planning_threads`; None starts nothing.
        """
        if threads is not None:
            self._submitted = {
                (flow.target, flow.key): threads.submit(self._query, flow)
                for flow in flows
                if not flow.inputs
            }

    def of(self, flow: Flow, partition: PartitionRange | None = None) -> AnalysedFlow:
        """Analyse the query of one flow.

        Args:
            partition: Another range of partitions than the usual one.

        Raises:
            UndeclaredInputError: It reads a dataset of the pipeline that it does not declare.
        """
        submitted = self._submitted.pop((flow.target, flow.key), None)
        if submitted is None or partition is not None:
            query = self._query(flow, partition)
        else:
            query = submitted.result()
        check_inputs_read(flow, query.read, query.markers, self._tables.locations, self._names)
        declared = tuple(
            InputVersion(name, str(i), "stream") if name in flow.streams else self._input(name, i)
            for name, i in flow.inputs.items()
        )
        return replace(query, inputs=declared + outside_inputs(query.read))

    def _query(self, flow: Flow, partition: PartitionRange | None = None) -> AnalysedFlow:
        session = flow_session(self._spark, flow)
        partition = partition or self._partitions.get(flow.target)
        binder = Binder(self._graph, session, self._tables.frame, self._tables.stream, partition)
        if not unavailable(session, flow.target):
            number_from_high(session)
        with active(session), refusing_unwritten_datasets(self._graph, flow):
            frame = binder.query(flow)
            read = relations(frame)
        return AnalysedFlow(session, frame, read, binder.markers, binder.text)

    def _input(self, name: str, identifier: Identifier) -> InputVersion:
        dataset = self._graph[identifier]
        if isinstance(dataset, View):
            return InputVersion(name, str(identifier), "view")
        if isinstance(dataset, Source) or not self._tables.is_written(identifier):
            state = self._tables.state(identifier)
            if state is not None:
                return InputVersion(name, str(identifier), "pinned", state.version, state.table_id)
        return InputVersion(name, str(identifier), "run")
