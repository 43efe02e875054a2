"""Bind input DataFrames to queries: by parameter, or by name in a SQL text.

Every input gets an alias that the analysed plan keeps. The aliases show afterwards which inputs a
query really reads (`planning/query/declared_inputs.py`).
"""

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from delta_pipelines.delta.jvm.sessions import current_namespace, settings
from delta_pipelines.delta.query.query_session import query_session, sql_query
from delta_pipelines.delta.query.relations import DECLARED_PREFIX
from delta_pipelines.errors import DatasetError
from delta_pipelines.graph.function_parameters import PARTITION_PARAMETER, SESSION_PARAMETER
from delta_pipelines.graph.graph import Flow, Graph, View
from delta_pipelines.graph.sql_inputs import in_parentheses, replace_names, with_tables
from delta_pipelines.graph.stream_rules import STREAMING_KINDS
from delta_pipelines.model.declarations import Changes, Stream
from delta_pipelines.model.identifiers import Identifier, quoted
from delta_pipelines.model.partition_range import PartitionRange
from delta_pipelines.security.redaction import Redaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FrameOf = Callable[["SparkSession", Identifier], "DataFrame"]
"""Return the rows of a table or source, in a given session."""
StreamOf = Callable[["SparkSession", Identifier, Stream | Changes], "DataFrame"]
"""Return a table or source as a stream, in a given session."""


def flow_session(spark: "SparkSession", flow: Flow) -> "SparkSession":
    """Copy a session for one flow, with the settings of its declaration."""
    session = query_session(spark)
    for key, value in flow.declaration.spark_conf.items():
        session.conf.set(key, value)
    return session


class Binder:
    """Builds the DataFrames of queries in one session.

    Args:
        session: Used by no other code; temporary views are created in it.
        frame_of: Returns the rows of tables and sources.
        stream_of: Returns tables and sources as streams.
        partition: The range to compute, for a function that takes it.
    """

    def __init__(
        self,
        graph: Graph,
        session: "SparkSession",
        frame_of: FrameOf,
        stream_of: StreamOf,
        partition: PartitionRange | None = None,
    ) -> None:
        self._graph = graph
        self._session = session
        self._frame_of = frame_of
        self._stream_of = stream_of
        self._partition = partition
        self.text = ""
        """SQL text of the last query, with markers for its inputs; empty for a function."""
        self._markers: dict[str, Identifier] = {}
        self._frames: dict[Identifier, DataFrame] = {}

    @property
    def markers(self) -> dict[str, Identifier]:
        """Alias without its prefix -> the input that it stands for."""
        return dict(self._markers)

    def query(self, flow: Flow) -> "DataFrame":
        """Build and analyse a flow's DataFrame; run nothing.

        Raises:
            DatasetError: The function did not return a DataFrame.
        """
        query = flow.declaration.query
        if query is None or (query.sql is None and query.function is None):
            raise DatasetError("it has no query.", dataset=flow.name)
        frame = self._sql(flow, query.sql) if query.sql is not None else self._call(flow)
        _check_streaming(flow, frame)
        return frame

    def _call(self, flow: Flow) -> "DataFrame":
        from pyspark.sql import DataFrame

        from delta_pipelines.delta.jvm.spark_errors import SPARK_FAILURES

        function = flow.declaration.query.function if flow.declaration.query else None
        assert function is not None
        arguments: dict[str, object] = {
            parameter: self._marked(flow, parameter, identifier)[1].alias(identifier.name)
            for parameter, identifier in flow.inputs.items()
        }
        if SESSION_PARAMETER in inspect.signature(function).parameters:
            arguments[SESSION_PARAMETER] = self._session
        if flow.takes_partition:
            arguments[PARTITION_PARAMETER] = self._partition
        try:
            frame = function(**arguments)
        except SPARK_FAILURES:
            raise
        except Exception as error:
            message = Redaction().text(f"its function raised {type(error).__name__}: {error}")
            raise DatasetError(message, dataset=flow.name) from error
        if not isinstance(frame, DataFrame):
            raise DatasetError(
                f"its function returned {type(frame).__name__}, not a DataFrame{_instead(frame)}",
                dataset=flow.name,
            )
        return frame

    def _sql(self, flow: Flow, sql: str) -> "DataFrame":
        if flow.by_name:
            return self._sql_by_name(flow, sql)
        replacements: list[tuple[int, int, str]] = []
        for reference in flow.references:
            marker, frame = self._marked(flow, reference.name, reference.identifier)
            frame.createOrReplaceTempView(marker)
            replacements += reference.replaced_by(f"`{marker}`")
        self.text = replace_names(sql, replacements)
        return sql_query(self._session, self.text)

    def _sql_by_name(self, flow: Flow, sql: str) -> "DataFrame":
        """Let Spark's parser find the inputs: each is a temporary view during the analysis.

        Spark looks up any other name without a schema in the flow's schema, so that a dataset
        which `inputs=` does not name is found, and refused.
        """
        # Build all frames first: the SQL text of an input may bind the same names differently.
        marked = {name: self._marked(flow, name, i) for name, i in flow.inputs.items()}
        self.text = with_tables(sql, {name: f"`{marker}`" for name, (marker, _) in marked.items()})
        try:
            for name, (marker, frame) in marked.items():
                frame.createOrReplaceTempView(marker)
                frame.createOrReplaceTempView(quoted(name))
            with self._namespace(flow):
                return sql_query(self._session, in_parentheses(sql))
        finally:
            for name in marked:
                self._session.catalog.dropTempView(name)

    def _namespace(self, flow: Flow) -> AbstractContextManager[None]:
        schema = ".".join(quoted(part) for part in (flow.catalog, flow.schema) if part)
        if not self._session.catalog.databaseExists(schema):
            return nullcontext()
        return current_namespace(self._session, flow.catalog, flow.schema)

    def _marked(self, flow: Flow, name: str, identifier: Identifier) -> "tuple[str, DataFrame]":
        number = str(len(self._markers))
        self._markers[number] = identifier
        marker = DECLARED_PREFIX + number
        how = flow.streams.get(name)
        frame = (
            self._frame(identifier)
            if how is None
            else self._stream_of(self._session, identifier, how)
        )
        return marker, frame.alias(marker)

    def _frame(self, identifier: Identifier) -> "DataFrame":
        if identifier not in self._frames:
            dataset = self._graph[identifier]
            if isinstance(dataset, View):
                frame = self._view(self._graph.flow(identifier))
            else:
                frame = self._frame_of(self._session, identifier)
            self._frames[identifier] = frame
        return self._frames[identifier]

    def _view(self, flow: Flow) -> "DataFrame":
        """A view's rows under the view's own settings, as Spark reads a published view."""
        if flow.declaration.spark_conf:
            for name, identifier in flow.inputs.items():
                if name not in flow.streams:
                    self._frame(identifier)  # a view among them has its own settings
        with settings(self._session, flow.declaration.spark_conf):
            return self.query(flow)


def _instead(returned: object) -> str:
    """The end of an error about a function's result: what to return instead."""
    kind = type(returned)
    if returned is None:
        return ": end it with `return`."
    if isinstance(returned, list | tuple) or kind.__module__.partition(".")[0] == "pandas":
        return ": return spark.createDataFrame(...) of it, with the parameter `spark`."
    if kind.__name__ in ("DataFrameWriter", "DataStreamWriter", "StreamingQuery"):
        return ": return the rows themselves; the pipeline writes them."
    return "."


def is_stream(flow: Flow, frame: "DataFrame") -> bool:
    """True when a query of `Binder` reads streams; only some kinds may."""
    return flow.declaration.kind in STREAMING_KINDS and frame.isStreaming


def _check_streaming(flow: Flow, frame: "DataFrame") -> None:
    kind, is_streaming = flow.declaration.kind, frame.isStreaming
    if is_streaming and kind not in STREAMING_KINDS:
        raise DatasetError(
            f"its query is a stream, and a {kind} reads batches: use spark.read instead of "
            "spark.readStream, bind stream inputs as dp.Batch(...), or make it a streaming_table.",
            dataset=flow.name,
        )
    if not is_streaming and kind in ("streaming_table", "append_flow"):
        raise DatasetError(
            "its query is not a stream: use spark.readStream instead of spark.read, or read at "
            "least one input as a stream (dp.Stream(...), also in the temporary views it reads); "
            "or make it a materialized_view.",
            dataset=flow.name,
        )
