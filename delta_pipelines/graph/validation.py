"""Find the problems of a pipeline without a JVM."""

import re
from collections.abc import Iterable, Iterator, Mapping

from delta_pipelines.errors import Problem
from delta_pipelines.graph.column_rules import column_problems
from delta_pipelines.graph.function_parameters import (
    PARTITION_PARAMETER,
    hidden_dataset_problem,
    takes_partition,
)
from delta_pipelines.graph.graph import Dataset, Flow, View
from delta_pipelines.graph.row_expressions import row_expression_problem
from delta_pipelines.graph.table_properties import property_problems, view_property_problems
from delta_pipelines.graph.topological_order import Edges
from delta_pipelines.model.declarations import Declaration, Expectation, UpsertKeys
from delta_pipelines.model.identifiers import Identifier, name_problem
from delta_pipelines.security.redaction import is_credential

KINDS = ("materialized_view", "streaming_table", "append_flow", "upsert")
"""Kinds that write rows, so that expectations can count them."""


def expectation_problems(declaration: Declaration) -> list[str]:
    """Check the expectations of a declaration; return the problems, as sentences.

    Example:
        >>> from delta_pipelines.model.declarations import Expectation
        >>> odd = Expectation("odd", "n %", "warn")
        >>> expectation_problems(Declaration("t", "upsert", expectations=(odd,)))
        ["expectation 'odd': 'n %' is not a SQL expression."]
    """
    if not declaration.expectations:
        return []
    if declaration.kind not in KINDS:
        kind = declaration.kind.replace("_", " ")
        text = f"a {kind} cannot have expectations, because it writes no rows"
        return [f"{text}. Put them on the dataset that reads it."]
    names = [expectation.name for expectation in declaration.expectations]
    repeated = sorted({name for name in names if names.count(name) > 1})
    texts = [f"the expectation {name!r} is declared more than once." for name in repeated]
    texts += ["an expectation has an empty name."] * any(not name.strip() for name in names)
    for expectation in declaration.expectations:
        problem = row_expression_problem(expectation.condition)
        if problem:
            texts.append(f"expectation {expectation.name!r}: {problem}")
    return texts


def shared_problems(flows: Iterable[Flow]) -> list[Problem]:
    """Find different expectations with one name in the flows of one table."""
    first: dict[tuple[Identifier, str], Expectation] = {}
    problems = []
    for flow in flows:
        for expectation in flow.declaration.expectations:
            known = first.setdefault((flow.target, expectation.name), expectation)
            if known != expectation:
                text = (
                    f"the expectation {expectation.name!r} differs from the one in another flow of "
                    f"{flow.target}; give it another name."
                )
                problems.append(Problem(text, flow.name, flow.declaration.location))
    return problems


_IMPOSSIBLE = re.compile("[\x00\ud800-\udfff]")


def text_problem(what: str, text: str) -> str | None:
    """Say that a text contains a NUL or half of a surrogate pair, or None.

    Args:
        what: What the text is.
        text: Any text of a declaration.

    Example:
        >>> text_problem("comment", "fine") is None
        True
    """
    if not _IMPOSSIBLE.search(text):
        return None
    return (
        f"{what} {text[:60]!a} contains a character that no catalog or file can store "
        f"(NUL, or half of a surrogate pair); remove it."
    )


def text_problems(declaration: Declaration) -> list[str]:
    """Check that every text of a declaration, except its names, can be stored."""
    found = (text_problem(what, text) for what, text in _texts(declaration))
    return [problem for problem in found if problem]


def _texts(declaration: Declaration) -> Iterator[tuple[str, str]]:
    upsert, query = declaration.upsert, declaration.query
    yield from (
        (what, text)
        for what, text in (
            ("comment", declaration.comment),
            ("group", declaration.group),
            ("the SQL text", query.sql if query else None),
            ("sequence_by", upsert.sequence_by if upsert else None),
            ("deletes_when", upsert.deletes_when if upsert else None),
        )
        if text
    )
    for what, texts in (
        ("key", upsert.keys if upsert else ()),
        ("partition column", declaration.partition_cols),
        ("cluster column", declaration.cluster_by),
        ("expectation", [t for e in declaration.expectations for t in (e.name, e.condition)]),
        ("column", [declaration.columns] if isinstance(declaration.columns, str) else []),
        ("column comment", [t for pair in declaration.column_comments.items() for t in pair]),
        ("constraint", declaration.constraints.values()),
        ("owner", declaration.owners),
        ("tag", [*declaration.tags, *declaration.tags.values()]),
        ("property", [*declaration.table_properties, *declaration.table_properties.values()]),
        ("setting", declaration.spark_conf),
    ):
        yield from ((what, text) for text in texts)
    # A setting's value may be a credential, so the setting is named instead.
    for key, value in declaration.spark_conf.items():
        if _IMPOSSIBLE.search(value):
            yield f"the value of setting {key!r}:", "\0"


RESERVED_NAMES = {"spark": "a parameter `spark` is the session, so nothing could read it"}
RESERVED_NAME_PREFIX = "__dp_"
GLOBAL_TEMP = "global_temp"
"""The schema that Spark reserves for temporary views of all sessions; it cannot be created."""
MAX_PARTITION_NAME = 128
"""Bytes; a folder is named `column=value`, and special characters in it are escaped."""


def declaration_problems(declaration: Declaration) -> list[Problem]:
    """Check one declaration by itself."""
    texts = [*_name_problems(declaration), *_layout_problems(declaration)]
    texts += property_problems(declaration.table_properties)
    if declaration.kind == "view":
        texts += view_property_problems(declaration.table_properties)
    texts += _append_only_problems(declaration)
    texts += text_problems(declaration)
    texts += expectation_problems(declaration)
    texts += column_problems(declaration)
    if declaration.comment is not None and is_credential("", declaration.comment):
        texts.append(
            "the comment contains an address with a password, and every reader can see it; "
            "remove it."
        )
    if declaration.upsert is not None:
        texts += _key_problems(declaration.upsert.keys)
        texts += _expression_problems(declaration.upsert)
    return [Problem(text, declaration.name, declaration.location) for text in texts]


def graph_problems(datasets: Mapping[Identifier, Dataset], edges: Edges) -> list[Problem]:
    """Check the relations of resolved datasets.

    Args:
        datasets: All datasets.
        edges: Dataset -> its inputs.
    """
    problems = []
    hidden = {identifier for identifier in datasets if identifier.name == PARTITION_PARAMETER}
    for identifier, inputs in edges.items():
        reader = datasets[identifier]
        if hidden.difference(inputs) and takes_partition(reader.declaration):
            text = hidden_dataset_problem()
            problems.append(Problem(text, reader.name, reader.declaration.location))
        own = reader.kind not in ("source", "temporary_view")
        if own and identifier.in_session_catalog and identifier.schema == GLOBAL_TEMP:
            text = f"Spark reserves the schema {GLOBAL_TEMP} for temporary views; use another one."
            problems.append(Problem(text, reader.name, reader.declaration.location))
        if reader.kind != "view":
            continue
        for upstream in inputs:
            if datasets[upstream].kind == "temporary_view":
                text = (
                    f"a persisted view cannot read the temporary view "
                    f"{datasets[upstream].name!r}, which other sessions do not know; "
                    f"make the temporary view a view() or a materialized_view()."
                )
                problems.append(Problem(text, reader.name, reader.declaration.location))
    return problems


def graph_warnings(datasets: Mapping[Identifier, Dataset], edges: Edges) -> tuple[str, ...]:
    """Warn about what is allowed but probably not intended.

    Args:
        datasets: All datasets.
        edges: Dataset -> its inputs.
    """
    read = {upstream for inputs in edges.values() for upstream in inputs}
    return tuple(
        str(
            Problem(
                "no dataset reads this temporary view, so it has no effect.",
                dataset.name,
                dataset.declaration.location,
            )
        )
        for identifier, dataset in datasets.items()
        if isinstance(dataset, View) and dataset.kind == "temporary_view" and identifier not in read
    )


def _name_problems(declaration: Declaration) -> list[str]:
    if declaration.name == "<lambda>":
        return ["a lambda has no name; give the dataset a name: name=."]
    texts = []
    for name in (declaration.name, declaration.schema):
        text = name_problem(name) if name is not None else None
        if text:
            texts.append(text)
    if declaration.schema is not None and "." in declaration.schema + declaration.name:
        texts.append("give the schema in the name or by schema=, not both, and without dots.")
    last = declaration.name.rpartition(".")[2].lower()
    if last in RESERVED_NAMES:
        texts.append(f"the name {last!r} is reserved: {RESERVED_NAMES[last]}.")
    if last.startswith(RESERVED_NAME_PREFIX):
        texts.append(f"names that begin with {RESERVED_NAME_PREFIX!r} are reserved for the engine.")
    return texts


def _layout_problems(declaration: Declaration) -> list[str]:
    texts = []
    if declaration.partition_cols and declaration.cluster_by:
        texts.append("a table cannot have both partition_cols and cluster_by; remove one.")
    for what, columns in (
        ("partition_cols", declaration.partition_cols),
        ("cluster_by", declaration.cluster_by),
    ):
        texts += _repeated(what, columns)
    texts += [
        f"partition column {column[:20]!r}... is too long: its name is part of a folder's name, "
        f"which file systems limit to 255 bytes; use at most {MAX_PARTITION_NAME} bytes."
        for column in declaration.partition_cols
        if len(column.encode(errors="replace")) > MAX_PARTITION_NAME
    ]
    return texts


def _append_only_problems(declaration: Declaration) -> list[str]:
    wanted = declaration.table_properties.get("delta.appendOnly", "false")
    if wanted.lower() != "true" or declaration.kind not in ("materialized_view", "upsert"):
        return []
    kind = declaration.kind.replace("_", " ")
    return [f"delta.appendOnly is 'true', but every refresh of a {kind} replaces rows; remove it."]


def _key_problems(keys: tuple[str, ...]) -> list[str]:
    if not keys:
        return ["an upsert needs keys: the columns that identify a row."]
    return _repeated("keys", keys)


def _expression_problems(upsert: UpsertKeys) -> list[str]:
    named = {"sequence_by": upsert.sequence_by, "deletes_when": upsert.deletes_when}
    problems = (
        (what, row_expression_problem(text)) for what, text in named.items() if text is not None
    )
    return [f"{what}: {problem}" for what, problem in problems if problem]


def _repeated(what: str, columns: tuple[str, ...]) -> list[str]:
    folded = [column.lower() for column in columns]
    repeated = sorted({column for column in columns if folded.count(column.lower()) > 1})
    return [f"{what} names {', '.join(map(repr, repeated))} more than once."] if repeated else []
