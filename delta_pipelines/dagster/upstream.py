"""What a dataset reads and is made of, looked up through temporary views."""

import hashlib

from delta_pipelines.fingerprint import definition_hash
from delta_pipelines.graph.graph import Graph
from delta_pipelines.identifiers import Identifier, name_problem, parse_identifier


def upstream_identifiers(graph: Graph, identifier: Identifier) -> tuple[Identifier, ...]:
    """Everything with a name that a dataset reads, also undeclared tables that its SQL names.

    Args:
        graph: The pipeline's graph.
        identifier: A table or view.

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
    """A hash of the definition: the dataset's own, its flows' and its temporary views'.

    Args:
        graph: The pipeline's graph.
        identifier: A table or view.

    Returns:
        16 hexadecimal digits; of a dataset by itself exactly `definition_hash`.
    """
    own = definition_hash(graph[identifier].declaration)
    inlined = [definition_hash(graph[view].declaration) for view in graph.parts(identifier)[1:]]
    flows = [
        definition_hash(flow.declaration)
        for flow in graph.flows_of(identifier)
        if flow.declaration.kind == "append_flow"
    ]
    if not inlined and not flows:
        return own
    return hashlib.sha256(" ".join([own, *sorted(inlined + flows)]).encode()).hexdigest()[:16]
