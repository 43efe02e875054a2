"""Find problems of declared columns and constraints without a JVM."""

from delta_pipelines.graph.row_expressions import row_expression_problem
from delta_pipelines.model.constraints import CONSTRAINT, constraint_properties, constraints_of
from delta_pipelines.model.declarations import Declaration


def declared_properties(declaration: Declaration) -> dict[str, str]:
    """The declared table properties, with the CHECK constraints as Delta stores them.

    Example:
        >>> declared_properties(Declaration("t", "upsert", constraints={"positive": "n > 0"}))
        {'delta.constraints.positive': 'n > 0'}
    """
    return {**declaration.table_properties, **constraint_properties(declaration.constraints)}


def columns_text(declaration: Declaration) -> str:
    """The declared columns as one line; empty when there are none.

    Example:
        >>> columns_text(Declaration("t", "upsert", columns="id INT,   v STRING"))
        'id INT, v STRING'
    """
    columns = declaration.columns
    if columns is None or isinstance(columns, str):
        return " ".join((columns or "").split())
    return ", ".join(
        f"{field.name} {field.dataType.simpleString()}{'' if field.nullable else ' NOT NULL'}"
        for field in columns.fields
    )


def constraint_texts(declaration: Declaration) -> list[str]:
    """The declared CHECK constraints, each as `name: condition`."""
    return [f"{name}: {condition}" for name, condition in declaration.constraints.items()]


def declared_lines(declaration: Declaration) -> list[str]:
    """What a declaration says about columns, for people.

    Example:
        >>> declared_lines(Declaration("t", "upsert", columns="n INT", constraints={"c": "n > 0"}))
        ['columns: n INT', 'constraint c: n > 0']
    """
    columns = columns_text(declaration)
    comments = [f"comment on {name}: {text}" for name, text in declaration.column_comments.items()]
    constraints = [f"constraint {text}" for text in constraint_texts(declaration)]
    return [*([f"columns: {columns}"] if columns else []), *comments, *constraints]


def column_problems(declaration: Declaration) -> list[str]:
    """Check the constraints of a declaration; return the problems, as sentences.

    Example:
        >>> column_problems(Declaration("t", "upsert", constraints={"odd": "n %"}))
        ["constraint 'odd': 'n %' is not a SQL expression."]
    """
    problems = []
    elsewhere = {name.lower() for name in constraints_of(declaration.table_properties)}
    for name, condition in declaration.constraints.items():
        problem = row_expression_problem(condition)
        if problem:
            problems.append(f"constraint {name!r}: {problem}")
        if name in elsewhere:
            problems.append(
                f"constraint {name!r} is in constraints and in table_properties "
                f"({CONSTRAINT}{name}); keep the one in constraints."
            )
    return problems
