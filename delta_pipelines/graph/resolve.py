"""Resolve declarations to a graph: names become identifiers, inputs become edges."""

import inspect
from collections.abc import Iterable, Mapping
from typing import Protocol

from delta_pipelines.errors import (
    MAX_LISTED,
    CyclicDependencyError,
    DeclarationError,
    Problem,
    UnknownDatasetError,
)
from delta_pipelines.graph.function_parameters import (
    binding_problem,
    parameter_hint,
    parameter_problem,
    reserved_parameters,
    takes_partition,
)
from delta_pipelines.graph.graph import Dataset, Flow, Graph, Source, SqlReference, Table, View
from delta_pipelines.graph.sql_inputs import TableName
from delta_pipelines.graph.sql_reading import SqlReading, read_sql, use_problem
from delta_pipelines.graph.stream_rules import stream_problems, stream_warnings
from delta_pipelines.graph.suggestions import suggestion
from delta_pipelines.graph.topological_order import cycles, topological_order
from delta_pipelines.graph.validation import (
    declaration_problems,
    graph_problems,
    graph_warnings,
    shared_problems,
)
from delta_pipelines.model.declarations import Changes, Declaration, Input, Stream
from delta_pipelines.model.identifiers import Identifier, name_problem, parse_identifier
from delta_pipelines.model.named_sequence import NamedSequence


class Declarations(Protocol):
    """The declarations of a pipeline."""

    name: str
    schema: str
    catalog: str | None
    storage: str | None

    @property
    def declarations(self) -> tuple[Declaration, ...]:
        """Datasets, flows and sources, in the order of the file."""
        ...

    @property
    def misplaced(self) -> list[Problem]:
        """Declarations that are not complete, as problems."""
        ...


def resolve(pipeline: Declarations) -> Graph:
    """Resolve and check a pipeline's declarations.

    Raises:
        DeclarationError: With every problem; see `Pipeline.graph`.
    """
    problems = [*_pipeline_problems(pipeline), *pipeline.misplaced]
    datasets: dict[Identifier, Dataset] = {}
    plain: dict[Identifier, Identifier] = {}
    named: dict[str, Identifier] = {}
    append_flows = []
    for declaration in pipeline.declarations:
        problems += declaration_problems(declaration)
        if declaration.kind == "append_flow":
            append_flows.append(declaration)
            continue
        identifier = _identifier(pipeline, declaration)
        if identifier is None:
            continue
        known = plain.setdefault(identifier.plain, identifier)
        if known in datasets:
            first = datasets[known].declaration.location
            where = f" (first at {first})" if first else ""
            text = f"{identifier} is declared twice{where}; remove one of the declarations."
            problems.append(Problem(text, declaration.name, declaration.location))
            continue
        taken = named.setdefault(declaration.name.lower(), identifier)
        if taken != identifier:
            text = (
                f"another dataset, {taken}, already has this name; declare this one with the name "
                f"'{identifier}' and without schema=."
            )
            problems.append(Problem(text, declaration.name, declaration.location))
        datasets[identifier] = _dataset(declaration, identifier)

    resolver = _Resolver(pipeline, datasets)
    flows = [
        resolver.flow(d.declaration, d.identifier)
        for d in datasets.values()
        if d.declaration.query is not None
    ]
    flows += resolver.append_flows(append_flows)
    problems += resolver.problems
    edges: dict[Identifier, tuple[Identifier, ...]] = {
        i: () for i, d in datasets.items() if not isinstance(d, Source)
    }
    for flow in flows:
        edges[flow.target] += tuple(flow.inputs.values())
    cyclic = cycles(edges)
    problems += [_cycle_problem(cycle, datasets) for cycle in cyclic]
    problems += graph_problems(datasets, edges)
    problems += stream_problems(datasets, flows)
    problems += shared_problems(flows)
    if problems:
        raise _error(problems, len(cyclic), resolver.unknown)

    order = topological_order(edges)
    return Graph(
        tables=NamedSequence(d for d in datasets.values() if isinstance(d, Table)),
        views=NamedSequence(d for d in datasets.values() if isinstance(d, View)),
        sources=NamedSequence(d for d in datasets.values() if isinstance(d, Source)),
        flows=NamedSequence(flows),
        order=tuple(i for i in order if not isinstance(datasets[i], Source)),
        warnings=(*graph_warnings(datasets, edges), *stream_warnings(datasets, flows)),
        _by_identifier=datasets,
    )


def _error(problems: list[Problem], circular: int, unknown: int) -> DeclarationError:
    if circular == len(problems):
        return CyclicDependencyError(problems)
    if unknown == len(problems):
        return UnknownDatasetError(problems)
    return DeclarationError(problems)


def _pipeline_problems(pipeline: Declarations) -> list[Problem]:
    problems = []
    named = {"name": pipeline.name, "schema": pipeline.schema, "catalog": pipeline.catalog}
    for what, name in named.items():
        if name is None:
            continue
        text = name_problem(name) or ("it has a dot." if "." in name else None)
        if text:
            problems.append(Problem(f"The pipeline's {what} {name!r} cannot be used: {text}"))
    storage = pipeline.storage
    if storage is not None and (not storage.strip() or not storage.isprintable()):
        text = f"The pipeline's storage {storage!r} is not a path: it is blank or unprintable."
        problems.append(Problem(text))
    return problems


def _identifier(pipeline: Declarations, declaration: Declaration) -> Identifier | None:
    if name_problem(declaration.name) or (
        declaration.schema is not None and name_problem(declaration.schema)
    ):
        return None
    schema = declaration.schema or pipeline.schema
    return parse_identifier(declaration.name, catalog=pipeline.catalog, schema=schema)


def _dataset(declaration: Declaration, identifier: Identifier) -> Dataset:
    match declaration.kind:
        case "materialized_view" | "streaming_table" | "upsert":
            return Table(declaration.name, identifier, declaration.kind, declaration)
        case "view" | "temporary_view":
            return View(declaration.name, identifier, declaration.kind, declaration)
        case "source":
            return Source(declaration.name, identifier, declaration)
        case "append_flow":
            raise AssertionError("an append flow is not a dataset")


def _cycle_problem(cycle: list[Identifier], datasets: Mapping[Identifier, Dataset]) -> Problem:
    path = " -> ".join(datasets[i].name for i in [*cycle, cycle[0]])
    declaration = datasets[cycle[0]].declaration
    text = f"datasets read each other in a cycle: {path} (each reads the next)."
    return Problem(text, declaration.name, declaration.location)


class _Resolver:
    """Resolves parameters and names in SQL texts to datasets."""

    def __init__(self, pipeline: Declarations, datasets: Mapping[Identifier, Dataset]) -> None:
        self._pipeline = pipeline
        self._datasets = datasets
        self._by_name: dict[str, Identifier] = {}
        self._by_last_part: dict[str, list[Identifier]] = {}
        self._plain = {identifier.plain: identifier for identifier in datasets}
        for identifier, dataset in datasets.items():
            self._by_name[dataset.name.lower()] = identifier
            self._by_last_part.setdefault(identifier.name, []).append(identifier)
        self.problems: list[Problem] = []
        self.unknown = 0

    def append_flows(self, declarations: Iterable[Declaration]) -> list[Flow]:
        """Resolve the append flows; collect problems."""
        flows = []
        taken = {dataset.name.lower() for dataset in self._datasets.values()}
        for declaration in declarations:
            if declaration.name.lower() in taken:
                self._problem(declaration, "the name is already taken; give the flow another one.")
                continue
            taken.add(declaration.name.lower())
            target = declaration.target or ""
            found = self._lookup(target)
            if found is None:
                text = f"target is {target!r}, which the pipeline does not declare"
                self._unknown(declaration, text, target)
            elif self._datasets[found].kind != "streaming_table":
                kind = self._datasets[found].kind
                self._problem(
                    declaration,
                    f"target {target!r} is a {kind}; append flows fill only streaming tables.",
                )
            elif declaration.name.lower() == found.name:
                self._problem(declaration, "the name is the table's; give the flow another one.")
            else:
                flows.append(self.flow(declaration, found))
        return flows

    def flow(self, declaration: Declaration, target: Identifier) -> Flow:
        """Resolve the flow of a declaration; collect problems."""
        inputs: dict[str, Identifier] = {}
        references: list[SqlReference] = []
        outside: list[str] = []
        reading = self._sql_reading(declaration)
        if reading is not None:
            bound = declaration.inputs if reading.by_name else {}
            for name, dataset in bound.items():
                found = self._dataset_named(declaration, _name(dataset), f"inputs[{name!r}]")
                if found is not None:
                    inputs[name] = found
            for table in reading.tables:
                found = self._sql_input(declaration, table)
                if found is None:
                    outside.append(table.name)
                    continue
                problem = use_problem(table)
                if problem is not None:
                    self._problem(declaration, problem)
                inputs[table.name] = found
                alias = None if table.alias else table.parts[-1]
                span = (table.start, table.end)
                references.append(SqlReference(table.name, *span, found, alias, table.prefixes))
        else:
            for parameter in self._parameters(declaration):
                resolved = self._parameter_input(declaration, parameter)
                if resolved is not None:
                    inputs[parameter] = resolved
        return Flow(
            name=declaration.name,
            target=target,
            declaration=declaration,
            inputs=inputs,
            streams=self._streams(declaration, inputs),
            references=tuple(references),
            outside=tuple(outside),
            catalog=self._pipeline.catalog,
            schema=self._pipeline.schema.lower(),
            by_name=reading is not None and reading.by_name,
            takes_partition=takes_partition(declaration),
        )

    def _streams(
        self, declaration: Declaration, inputs: Mapping[str, Identifier]
    ) -> dict[str, Stream | Changes]:
        """The inputs that are read as streams; a string binds them in the kind's default way."""
        bindings = {name.lower(): bound for name, bound in declaration.inputs.items()}
        streams: dict[str, Stream | Changes] = {}
        for name, identifier in inputs.items():
            bound = bindings.get(name.lower(), identifier.name)
            if isinstance(bound, Stream | Changes):
                streams[name] = bound
            elif (
                isinstance(bound, str)
                and declaration.kind in ("streaming_table", "append_flow")
                and self._datasets[identifier].kind != "temporary_view"
            ):
                streams[name] = Stream(bound)
        return streams

    def _sql_reading(self, declaration: Declaration) -> SqlReading | None:
        if declaration.query is None or declaration.query.sql is None:
            return None
        names = (d.name for d in self._datasets.values() if d.declaration is not declaration)
        given = declaration.inputs_given
        reading = read_sql(declaration.query.sql, declaration.inputs, names, given=given)
        for problem in reading.problems:
            self._problem(declaration, problem)
        return reading

    def _sql_input(self, declaration: Declaration, table: TableName) -> Identifier | None:
        bindings = {name.lower(): bound for name, bound in declaration.inputs.items()}
        bound = bindings.get(table.name.lower())
        if bound is not None:
            return self._dataset_named(declaration, _name(bound), f"inputs[{table.name!r}]")
        found = self._lookup(table.name)
        if found is None and len(table.parts) == 1:
            self._unknown_in_sql(declaration, table.name)
        return found

    def _unknown_in_sql(self, declaration: Declaration, name: str) -> None:
        text = f"the SQL reads {name!r}, which the pipeline does not declare"
        elsewhere = self._by_last_part.get(name.lower(), [])
        if elsewhere:  # a parameter would find it; in SQL a bare name is in the pipeline's schema
            whole = " or ".join(str(identifier) for identifier in elsewhere)
            self.unknown += 1
            self._problem(declaration, f"{text} in its own schema; in SQL write {whole}.")
            return
        more = (
            " Write the qualified name of a table outside of the pipeline, or declare it by "
            "source()."
        )
        self._unknown(declaration, text, name, more)

    def _parameters(self, declaration: Declaration) -> list[str]:
        function = declaration.query.function if declaration.query else None
        if function is None:
            return []
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):
            self._problem(declaration, "the function's parameters cannot be read.")
            return []
        names = []
        not_inputs = reserved_parameters(declaration)
        for parameter in parameters:
            problem = parameter_problem(parameter)
            if problem is not None:
                self._problem(declaration, problem)
            elif parameter.name not in not_inputs and not self._is_own(declaration, parameter):
                names.append(parameter.name)
        for bound in declaration.inputs:
            if bound in not_inputs:
                self._problem(declaration, binding_problem(bound))
            elif bound not in names:
                text = f"inputs binds {bound!r}, which is not a parameter of the function"
                self._problem(declaration, text + suggestion(bound, names))
        return names

    def _is_own(self, declaration: Declaration, parameter: inspect.Parameter) -> bool:
        """True for a parameter with a value, not an input: `def f(t, limit=3)`, as in loops."""
        name = parameter.name
        if parameter.default is parameter.empty or name in declaration.inputs:
            return False
        return self._lookup(name) is None and name.lower() not in self._by_last_part

    def _parameter_input(self, declaration: Declaration, parameter: str) -> Identifier | None:
        bound = declaration.inputs.get(parameter)
        if bound is not None:
            return self._dataset_named(declaration, _name(bound), f"inputs[{parameter!r}]")
        found = self._lookup(parameter)
        if found is not None:
            return found
        candidates = self._by_last_part.get(parameter.lower(), [])
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            listed = ", ".join(str(candidate) for candidate in candidates)
            text = f"parameter {parameter!r} may mean {listed}; bind one by inputs={{...}}."
            self._problem(declaration, text)
            return None
        if parameter in ("self", "cls"):
            text = "its function is a method of a class, and would be called without an object: "
            self._problem(declaration, text + "declare a function, or a static method.")
            return None
        text = (
            f"parameter {parameter!r} is not a dataset of this pipeline{parameter_hint(parameter)}"
        )
        self._unknown(declaration, text, parameter)
        return None

    def _dataset_named(self, declaration: Declaration, name: str, what: str) -> Identifier | None:
        found = self._lookup(name)
        if found is None:
            text = f"{what} is {name!r}, which the pipeline does not declare"
            self._unknown(declaration, text, name)
        return found

    def _lookup(self, name: str) -> Identifier | None:
        if name.lower() in self._by_name:
            return self._by_name[name.lower()]
        if name_problem(name):
            return None
        identifier = parse_identifier(
            name, catalog=self._pipeline.catalog, schema=self._pipeline.schema
        )
        return self._plain.get(identifier.plain)

    def _unknown(self, declaration: Declaration, text: str, name: str, more: str = "") -> None:
        known = (d.name for d in self._datasets.values() if d.declaration is not declaration)
        # A suggestion compares all names, which is slow for a thousand unknown names.
        hint = suggestion(name, known) if self.unknown < MAX_LISTED else "."
        self.unknown += 1
        self._problem(declaration, text + hint + more)

    def _problem(self, declaration: Declaration, text: str) -> None:
        self.problems.append(Problem(text, declaration.name, declaration.location))


def _name(bound: str | Input) -> str:
    return bound if isinstance(bound, str) else bound.name
