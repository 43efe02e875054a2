"""The inputs and the code version of a dataset, also through temporary views."""

import hashlib
import inspect

from delta_pipelines.graph.graph import Graph
from delta_pipelines.model.declarations import Declaration
from delta_pipelines.model.identifiers import Identifier, name_problem, parse_identifier
from delta_pipelines.user_code.definition_hash import definition_hash


def upstream_identifiers(graph: Graph, identifier: Identifier) -> tuple[Identifier, ...]:
    """The named inputs of a dataset, including undeclared tables in its SQL.

    Returns:
        Tables, persisted views, sources, then tables outside the pipeline; each once.
    """
    found = dict.fromkeys(graph.inputs(identifier))
    for part in graph.parts(identifier):
        for flow in graph.flows_of(part):
            for name in flow.outside:
                if name_problem(name) is None:
                    parsed = parse_identifier(name, catalog=flow.catalog, schema=flow.schema)
                    found.setdefault(parsed)
    found.pop(identifier, None)
    return tuple(found)


def code_version(graph: Graph, identifier: Identifier) -> str:
    """Compute the code version that Dagster shows: a hint for users, without effect on a run.

    It is computed without a JVM, from the declarations and the source code of the dataset, its
    flows and its temporary views, but not of the functions that they call. Whether a run refreshes
    a dataset depends on Spark's plan of the query instead.

    Returns:
        16 hexadecimal digits.
    """
    own = _version(graph[identifier].declaration)
    inlined = [_version(graph[view].declaration) for view in graph.parts(identifier)[1:]]
    flows = [
        _version(flow.declaration)
        for flow in graph.flows_of(identifier)
        if flow.declaration.kind == "append_flow"
    ]
    return _hash(" ".join([own, *sorted(inlined + flows)]))


def _version(declaration: Declaration) -> str:
    function = declaration.query.function if declaration.query else None
    try:
        text = inspect.getsource(inspect.unwrap(function)) if function else ""
    except (OSError, TypeError, ValueError):
        text = ""  # created at run time, or a callable object
    return _hash(f"{definition_hash(declaration)} {text}")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
