"""Find the inputs of a SQL text: by the parser, or only by `inputs=`. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from delta_pipelines.graph.sql_inputs import (
    NotUnderstood,
    SqlProblem,
    TableName,
    mentions,
    table_names,
)
from delta_pipelines.graph.suggestions import suggestion
from delta_pipelines.model.declarations import Input


@dataclass(frozen=True)
class SqlReading:
    """The inputs of a SQL text, as far as they are known without Spark.

    Args:
        tables: The tables that the parser finds.
        by_name: True when only `inputs=` names the inputs.
        problems: Errors, as sentences.
    """

    tables: tuple[TableName, ...] = ()
    by_name: bool = False
    problems: tuple[str, ...] = ()


def read_sql(
    sql: str, inputs: Mapping[str, str | Input], datasets: Iterable[str], *, given: bool
) -> SqlReading:
    """Find the tables of a text, or take them from the declaration.

    Args:
        sql: The text.
        inputs: Names in the text that the declaration binds.
        datasets: Names of the pipeline's datasets, for suggestions.
        given: True when the declaration has `inputs=`, even if it is empty.
    """
    try:
        tables = table_names(sql)
    except NotUnderstood as problem:
        if given:
            return _by_name(inputs)
        return SqlReading(problems=(f"{problem} {_name_inputs(sql, datasets)}",))
    except SqlProblem as problem:
        return SqlReading(problems=(str(problem),))
    named = {table.name.lower() for table in tables}
    missed = [bound for bound in inputs if bound.lower() not in named]
    if any(map(_is_bare_sample, tables)) and named <= {bound.lower() for bound in inputs}:
        return _by_name(inputs)  # a sample needs an alias only where a name is replaced
    # The parser misread a name, so Spark's parser must find the inputs.
    if missed and all(mentions(sql, bound) for bound in missed):
        return _by_name(inputs)
    problems = (
        f"inputs binds {bound!r}, which is not in the SQL"
        + suggestion(bound, [table.name for table in tables])
        for bound in missed
    )
    return SqlReading(tables, problems=tuple(problems))


def use_problem(table: TableName) -> str | None:
    """Refuse what Spark accepts only after a table's name, because the name will be replaced."""
    if table.time_travel:
        text = "the run pins one version of every dataset; remove AS OF."
        return f"the SQL reads {table.name!r} at a version: {text}"
    if _is_bare_sample(table):
        return f"give the sample an alias: {table.name} TABLESAMPLE (...) AS {table.parts[-1]}."
    return None


def _is_bare_sample(table: TableName) -> bool:
    return table.sampled and table.alias is None


def _name_inputs(sql: str, datasets: Iterable[str]) -> str:
    folded = sql.lower()
    # The first test is cheap, and a pipeline may have a thousand names.
    mentioned = [name for name in datasets if name.lower() in folded and mentions(sql, name)]
    written = ", ".join(f"{name.rpartition('.')[2]!r}: {name!r}" for name in mentioned)
    return (
        f"If Spark understands it, name the datasets that it reads, each by its name in the text "
        f"and without a schema: inputs={{{written}}}."
    )


def _by_name(inputs: Mapping[str, str | Input]) -> SqlReading:
    problems = []
    folded = [name.lower() for name in inputs]
    for name, bound in inputs.items():
        if "." in name:
            dataset = bound if isinstance(bound, str) else bound.name
            last = name.rpartition(".")[2]
            problems.append(
                f"the SQL parser (sqlglot) does not find {name!r} in the text, and then an input "
                f"can only replace a name without a schema: write {last} in the text, and "
                f"inputs={{{last!r}: {dataset!r}}}."
            )
        elif folded.count(name.lower()) > 1:
            problems.append(f"inputs binds {name!r} more than once (letter case does not count).")
    return SqlReading(by_name=True, problems=tuple(problems))
