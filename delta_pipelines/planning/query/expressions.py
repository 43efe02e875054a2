"""Check the SQL expressions of a declaration against the query's columns while planning."""

from typing import TYPE_CHECKING

from sqlglot import exp

from delta_pipelines.delta.jvm.sessions import is_on
from delta_pipelines.delta.jvm.spark_errors import explain
from delta_pipelines.delta.query.analyzed_plan import are_alike, is_deterministic
from delta_pipelines.delta.write.row_casts import empty_frame
from delta_pipelines.errors import DatasetError, SchemaChangeError
from delta_pipelines.graph.graph import Flow, Table
from delta_pipelines.graph.row_expressions import PREFIX, parsed_expression, row_expression_problem
from delta_pipelines.model.constraints import constraints_of
from delta_pipelines.model.identifiers import quoted
from delta_pipelines.model.table_definition import TableDefinition
from delta_pipelines.planning.query.judged_rows import judged
from delta_pipelines.planning.schema.schema_evolution import spelled_otherwise

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

    from delta_pipelines.model.table_state import TableState


def qualified(expression: str, alias: str) -> str:
    r"""Qualify every column of an expression with the alias of one side of a merge.

    Put the alias into the text itself: the SQL that sqlglot generates is not always the same
    expression (it turns `to_char` into a cast).

    Args:
        expression: SQL over unqualified columns.
        alias: The side's alias.

    Returns:
        The expression in parentheses; it may end with a comment.

    Raises:
        ValueError: The expression does not parse.

    Example:
        >>> qualified("coalesce(changed_at, made_at)", "t")
        '(coalesce(`t`.changed_at, `t`.made_at)\n)'
    """
    first = [column.parts[0] for column in parsed_expression(expression).find_all(exp.Column)]
    positions = {int(part.meta["start"]) - len(PREFIX) for part in first}
    side = f"{quoted(alias)}."
    text = expression
    for position in sorted(positions, reverse=True):
        text = f"{text[:position]}{side}{text[position:]}"
    return f"({text}\n)"


def not_older(source: str, target: str) -> str:
    """The condition under which a source row may update its target row.

    A row without a sequence never replaces a row with one. A row with an equal sequence does, so
    that a corrected batch can be loaded again (the rule of AUTO CDC, SCD type 1).

    Args:
        source: The source row's sequence, as SQL.
        target: The target row's sequence, as SQL.
    """
    return f"({target} IS NULL OR coalesce({source} >= {target}, false))"


def newer(source: str, target: str) -> str:
    """The condition under which a source row may delete its target row.

    When a deletion and a row have the same sequence, the row wins, whichever comes first (the rule
    of AUTO CDC, SCD type 1).

    Args:
        source: The source row's sequence, as SQL.
        target: The target row's sequence, as SQL.
    """
    return f"({target} IS NULL OR coalesce({source} > {target}, false))"


_SIDE = "__dp_side"


def check_upsert_expressions(table: Table, frame: "DataFrame") -> None:
    """Refuse `sequence_by` and `deletes_when` that Spark cannot analyse; run nothing.

    Args:
        table: An upsert; other tables pass.
        frame: Its analysed query.

    Raises:
        DatasetError: Names the option, the expression and what is wrong with it.
    """
    from pyspark.sql import functions as F

    upsert = table.declaration.upsert
    if upsert is None:
        return
    for what, text in (
        ("sequence_by", upsert.sequence_by),
        ("deletes_when", upsert.deletes_when),
    ):
        if text is None:
            continue
        try:
            of_target = qualified(text, _SIDE)
        except ValueError as error:
            raise DatasetError(f"{what}: {error}", dataset=table.name) from error
        given = type_of(text, frame, what, table.name)
        if not are_alike(frame.alias(_SIDE), text, of_target):
            raise DatasetError(
                f"{what} {text!r}: it is not clear which of its names are columns; compute it as "
                f"a column of the query, and use that column.",
                dataset=table.name,
            )
        if what == "deletes_when":
            _check_condition(given, text, what, table.name)
        else:
            # A refresh compares it with the table's value.
            type_of(f"({text}\n) >= ({text}\n)", frame, what, table.name)
        if not is_deterministic(frame.select(F.expr(text))):
            raise DatasetError(
                f"{what} {text!r} gives another value each time it is computed, so two runs would "
                f"not agree; compute it in the query.",
                dataset=table.name,
            )


def check_constraints(
    definition: TableDefinition, base: "TableState | None", session: "SparkSession", dataset: str
) -> None:
    """Refuse new CHECK constraints (`delta.constraints.*`) that Spark cannot analyse.

    Args:
        base: The table as it is; constraints that it already has are not checked again.
        dataset: Declared name, for messages.

    Raises:
        DatasetError: Names the constraint and what is wrong with it.
    """
    from pyspark.sql import functions as F

    has = constraints_of(base.properties) if base is not None else {}
    for name, text in constraints_of(definition.properties).items():
        if has.get(name) != text:
            what = f"CHECK constraint {name}"
            problem = row_expression_problem(text)
            if problem:
                raise DatasetError(f"{what} {text!r}: {problem}", dataset=dataset)
            frame = empty_frame(session, definition.schema)
            given = type_of(text, frame, what, dataset)
            _check_condition(given, text, what, dataset)
            if not is_deterministic(frame.select(F.expr(text))):
                raise DatasetError(
                    f"{what} {text!r} gives another value each time it is computed, so Delta "
                    f"cannot check it.",
                    dataset=dataset,
                )


def check_expectations(flow: Flow, frame: "DataFrame", dataset: str) -> None:
    """Refuse conditions of expectations that Spark cannot analyse or that are not boolean.

    Args:
        frame: Its analysed query.

    Raises:
        DatasetError: Names the expectation, its condition and what is wrong with it.
    """
    for expectation in flow.declaration.expectations:
        what = f"expectation {expectation.name!r}:"
        given = type_of(expectation.condition, frame, what, dataset)
        _check_condition(given, expectation.condition, what, dataset)


def check_spelling(flow: Flow, frame: "DataFrame", schema: "StructType") -> None:
    """Refuse a query that spells the table's columns differently while letter case counts.

    Args:
        frame: Its analysed query.
        schema: Columns that its table will have.

    Raises:
        SchemaChangeError: `spark.sql.caseSensitive` is on, and names differ from the table's.
    """
    otherwise = spelled_otherwise(schema, frame.schema)
    if otherwise and _is_case_sensitive(frame):
        raise SchemaChangeError(
            f"flow {flow.name!r} spells column {', '.join(otherwise)} in another letter case than "
            f"the table. With spark.sql.caseSensitive on that is another column, and a Delta "
            f"table cannot have both. Spell it as the table does, or turn that setting off.",
            dataset=flow.name,
        )


def with_expressions(flow: Flow, frame: "DataFrame") -> "DataFrame":
    """Add the declaration's expressions that decide about rows as columns of the query.

    Such an expression may depend on the clock or on a function's code, just as the query does; so
    the dataset's dependencies are traced from both.
    """
    from pyspark.sql import functions as F

    declaration = flow.declaration
    upsert, expectations = declaration.upsert, declaration.expectations
    deciding = [F.expr(expectation.condition) for expectation in expectations]
    if upsert is not None:
        texts = [text for text in (upsert.sequence_by, upsert.deletes_when) if text]
        deciding += [F.expr(text) for text in texts]
    if upsert is not None and upsert.deletes_when is not None:
        deleted = F.coalesce(F.expr(upsert.deletes_when), F.lit(False))
        deciding += [judged(expectation, upsert, deleted) for expectation in expectations]
    if not deciding:
        return frame
    return frame.withColumns({f"__dp_decides_{n}": column for n, column in enumerate(deciding)})


def _is_case_sensitive(frame: "DataFrame") -> bool:
    return is_on(frame.sparkSession, "spark.sql.caseSensitive", "false")


def type_of(text: str, frame: "DataFrame", what: str, dataset: str) -> "DataType":
    """The type of a SQL expression over the columns of a frame; run nothing.

    Args:
        text: The expression.
        frame: Has the columns that it may read.
        what: What the expression is, for messages.
        dataset: Declared name, for messages.

    Raises:
        DatasetError: Spark cannot analyse it.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    # Spark refuses a generator inside another expression, and an aggregate next to columns.
    within = F.coalesce(F.expr(text), F.lit(None))
    try:
        return frame.select("*", within).schema.fields[-1].dataType
    except PySparkException as error:
        reason = explain(error, dataset).message
        raise DatasetError(f"{what} {text!r}: {reason}", dataset=dataset) from error


def _check_condition(given: "DataType", text: str, what: str, dataset: str) -> None:
    from pyspark.sql.types import BooleanType

    if not isinstance(given, BooleanType):
        raise DatasetError(
            f"{what} {text!r} has the type {given.simpleString()}; a condition must be boolean.",
            dataset=dataset,
        )
