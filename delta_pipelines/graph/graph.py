"""The resolved graph: tables, views, sources, the flows that fill them, and their order."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from delta_pipelines.errors import UnknownDatasetError
from delta_pipelines.graph.suggestions import suggestion
from delta_pipelines.graph.table_properties import protecting
from delta_pipelines.model.declarations import Changes, Declaration, Stream
from delta_pipelines.model.identifiers import Identifier, quoted
from delta_pipelines.model.named_sequence import NamedSequence


@dataclass(frozen=True)
class Table:
    """A table that the pipeline writes.

    Args:
        name: Declared name.
        identifier: Qualified name.
        kind: `materialized_view`, `streaming_table` or `upsert`.
        declaration: What the user wrote.
        normalized_path: The table's location; known once it has been materialized.
    """

    name: str
    identifier: Identifier
    kind: Literal["materialized_view", "streaming_table", "upsert"]
    declaration: Declaration
    normalized_path: str | None = None

    @property
    def is_streaming_table(self) -> bool:
        """True for a table that append flows fill: only a full refresh wipes it."""
        return self.kind == "streaming_table"

    @property
    def keeps_rows(self) -> bool:
        """True when an ordinary refresh keeps rows: only a full refresh wipes the table."""
        return self.is_streaming_table or self.kind == "upsert" or self.has_partitions

    @property
    def has_partitions(self) -> bool:
        """True when a refresh replaces the rows of some partitions only."""
        return self.declaration.partitions is not None

    @property
    def wipes_first(self) -> bool:
        """True when a full refresh by streams empties the table first."""
        return self.declaration.full_refresh == "in_place"

    @property
    def reset_allowed(self) -> bool:
        """The declared property `pipelines.reset.allowed`, true by default."""
        return not protecting(self.declaration.table_properties)


@dataclass(frozen=True)
class View:
    """A persisted view of the catalog, or a temporary view that is inlined into its readers.

    Args:
        name: Declared name.
        identifier: Qualified name; for a temporary view only its name in the graph.
        kind: `view` or `temporary_view`.
        declaration: What the user wrote.
    """

    name: str
    identifier: Identifier
    kind: Literal["view", "temporary_view"]
    declaration: Declaration


@dataclass(frozen=True)
class Source:
    """A Delta table that is written outside of the pipeline.

    Args:
        name: Declared name.
        identifier: Qualified name.
        declaration: What the user wrote.
    """

    name: str
    identifier: Identifier
    declaration: Declaration
    kind: Literal["source"] = "source"


Dataset = Table | View | Source


@dataclass(frozen=True)
class SqlReference:
    """The position of an input's name in a SQL text.

    Args:
        name: The name as written: the flow's input of that name.
        start: Offset of the first character.
        end: Offset after the last character.
        identifier: The dataset.
        needs_alias: The name that columns use for it, when the text gives it no alias.
        prefixes: Ranges of the text that name its schema in front of columns.
    """

    name: str
    start: int
    end: int
    identifier: Identifier
    needs_alias: str | None
    prefixes: tuple[tuple[int, int], ...] = ()

    def replaced_by(self, name: str) -> list[tuple[int, int, str]]:
        """The replacements in the text that make it read another table.

        Columns keep their table's name, without a schema.

        Args:
            name: The other table, quoted.
        """
        if self.needs_alias is None:
            return [(self.start, self.end, name)]
        return [
            (self.start, self.end, f"{name} AS {quoted(self.needs_alias)}"),
            *((start, end, "") for start, end in self.prefixes),
        ]


@dataclass(frozen=True)
class Flow:
    """A query that fills a table or defines a view.

    Args:
        name: Declared name: its target's, or an append flow's own.
        target: Qualified name of its target.
        declaration: What the user wrote.
        inputs: Parameter (or name in the SQL text) -> dataset, in order.
        streams: The inputs that are read as streams -> how they are read.
        references: Positions of the inputs in the SQL text; empty for functions.
        takes_partition: True when its function has the parameter `partition`.
        by_name: True when the parser does not find the inputs in the SQL text, so that each
            becomes a table of its name in `inputs`.
        outside: Tables outside of the pipeline that the SQL text reads.
        catalog: Catalog of unqualified names; None for the session's.
        schema: Schema of unqualified names.
    """

    name: str
    target: Identifier
    declaration: Declaration
    inputs: Mapping[str, Identifier]
    references: tuple[SqlReference, ...] = ()
    outside: tuple[str, ...] = ()
    catalog: str | None = None
    schema: str = "default"
    streams: Mapping[str, Stream | Changes] = field(default_factory=dict)
    by_name: bool = False
    takes_partition: bool = False

    @property
    def identifier(self) -> Identifier:
        """Its name in lookups: the target's qualified name, or its own in the target's schema."""
        if self.declaration.kind != "append_flow":
            return self.target
        return Identifier(self.target.catalog, self.target.schema, self.name.lower())

    @property
    def key(self) -> str:
        """Name of its checkpoint: the same however the table's name is qualified."""
        return self.name.lower() if self.declaration.kind == "append_flow" else self.target.name


@dataclass(frozen=True)
class Graph:
    """A validated pipeline; built without a JVM.

    Args:
        tables: What the pipeline writes, in order of declaration.
        views: Persisted and temporary views, in order of declaration.
        flows: One per table and view; a streaming table has one or more.
        order: Tables and views, each after its inputs.
        sources: Tables that it reads and that are written outside of the pipeline.
        warnings: What is allowed but probably not intended.

    Example:
        >>> import delta_pipelines as dp
        >>> p = dp.Pipeline("p", schema="s")
        >>> p.materialized_view("numbers", "SELECT 1 AS n")
        >>> [str(identifier) for identifier in p.graph().order]
        ['s.numbers']
    """

    tables: NamedSequence[Table]
    views: NamedSequence[View]
    flows: NamedSequence[Flow]
    order: tuple[Identifier, ...]
    sources: NamedSequence[Source]
    warnings: tuple[str, ...] = ()
    _by_identifier: Mapping[Identifier, Dataset] = field(default_factory=dict, repr=False)
    # Results are cached, because in nested diamonds the number of paths doubles with every layer.
    _inputs: dict[Identifier, tuple[Identifier, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _parts: dict[Identifier, tuple[Identifier, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __getitem__(self, identifier: Identifier) -> Dataset:
        return self._by_identifier[identifier]

    def __contains__(self, identifier: Identifier) -> bool:
        return identifier in self._by_identifier

    @property
    def persisted_views(self) -> tuple[View, ...]:
        """Views that are published in the catalog."""
        return tuple(view for view in self.views if view.kind == "view")

    @property
    def assets(self) -> tuple[Table | View, ...]:
        """Tables and persisted views, each after its inputs."""
        datasets = (self._by_identifier[identifier] for identifier in self.order)
        return tuple(
            dataset
            for dataset in datasets
            if isinstance(dataset, Table) or (isinstance(dataset, View) and dataset.kind == "view")
        )

    def flow(self, identifier: Identifier) -> Flow:
        """The flow that fills or defines a dataset; the first one of several."""
        return self.flows_of(identifier)[0]

    def flows_of(self, identifier: Identifier) -> tuple[Flow, ...]:
        """The flows that fill a dataset, in order of declaration."""
        return self._flows_by_target[identifier]

    def inputs(self, identifier: Identifier) -> tuple[Identifier, ...]:
        """Tables, persisted views and sources that a dataset reads, through temporary views."""
        for part in self._missing(identifier, self._inputs):
            flows = self.flows_of(part)
            read = dict.fromkeys(i for flow in flows for i in self.flow_inputs(flow))
            self._inputs[part] = tuple(read)
        return self._inputs[identifier]

    def inputs_among(
        self, identifier: Identifier, chosen: Collection[Identifier]
    ) -> tuple[Identifier, ...]:
        """The datasets in `chosen` that a dataset reads, directly or through other views.

        A table outside `chosen` keeps its rows, whatever happens to its own inputs; a view always
        shows the current rows of its inputs.
        """
        found: dict[Identifier, None] = {}
        waiting = list(self.inputs(identifier))
        met = set(waiting)
        while waiting:
            upstream = waiting.pop()
            if upstream in chosen:
                found[upstream] = None
            elif isinstance(self._by_identifier[upstream], View):
                behind = [i for i in self.inputs(upstream) if i not in met]
                met.update(behind)
                waiting += behind
        return tuple(found)

    def flow_inputs(self, flow: Flow) -> tuple[Identifier, ...]:
        """Tables, persisted views and sources that a flow reads, through temporary views."""
        found: dict[Identifier, None] = {}
        for upstream in flow.inputs.values():
            through = self.inputs(upstream) if self._is_inlined(upstream) else (upstream,)
            found.update(dict.fromkeys(through))
        return tuple(found)

    def parts(self, identifier: Identifier) -> tuple[Identifier, ...]:
        """A dataset and the temporary views that are inlined into its queries, also nested."""
        for part in self._missing(identifier, self._parts):
            flows = self.flows_of(part)
            inlined = dict.fromkeys(i for flow in flows for i in self.inlined(flow))
            self._parts[part] = (part, *inlined)
        return self._parts[identifier]

    def inlined(self, flow: Flow) -> tuple[Identifier, ...]:
        """The temporary views that are inlined into a flow's query, directly or nested."""
        views = [i for i in flow.inputs.values() if self._is_inlined(i)]
        return tuple(dict.fromkeys(part for view in views for part in self.parts(view)))

    def _missing(
        self, identifier: Identifier, cache: Mapping[Identifier, object]
    ) -> tuple[Identifier, ...]:
        """What to compute before a dataset can be looked up in a cache.

        The first time these are all temporary views, each after its inputs: one after the other, a
        long chain of them needs no deep recursion.
        """
        if identifier in cache:
            return ()
        views = () if cache else (i for i in self.order if self._is_inlined(i) and i != identifier)
        return (*views, identifier)

    def _is_inlined(self, identifier: Identifier) -> bool:
        return self._by_identifier[identifier].kind == "temporary_view"

    @cached_property
    def _flows_by_target(self) -> Mapping[Identifier, tuple[Flow, ...]]:
        grouped: dict[Identifier, tuple[Flow, ...]] = {}
        for flow in self.flows:
            grouped[flow.target] = (*grouped.get(flow.target, ()), flow)
        return grouped

    def find(self, name: str) -> Table | View:
        """Find a table or persisted view by its declared or qualified name.

        Raises:
            UnknownDatasetError: There is no such dataset; the nearest name is suggested.
        """
        for datasets in (self.tables, self.views):
            if name in datasets and datasets[name].kind != "temporary_view":
                return datasets[name]
        known = [asset.name for asset in self.assets]
        raise UnknownDatasetError(
            f"{name!r} is not a table or view of the pipeline{suggestion(name, known)}"
        )
