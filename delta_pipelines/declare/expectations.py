"""The decorators that declare expectations."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from delta_pipelines.declare.argument_checks import check_text, located
from delta_pipelines.errors import DeclarationError, Problem
from delta_pipelines.model.declarations import (
    Declaration,
    Decorator,
    Expectation,
    ExpectationAction,
    G,
    QueryFunction,
)
from delta_pipelines.model.source_location import location_of_caller, location_of_function


@dataclass(frozen=True)
class _Expected:
    """An expectation and the function that it decorates."""

    function: QueryFunction
    expectation: Expectation


class DeclaresExpectations:
    """Records expectations by function, above or below the function's dataset decorator."""

    def __init__(self) -> None:
        self._expected: list[_Expected] = []
        self._unapplied: list[Problem] = []

    def expect(self, name: str, condition: str) -> Decorator:
        """Count the rows that break a condition, and write them too.

        Put expectations next to the decorator of a materialized view, streaming table, append flow
        or upsert that is a function. They are checked while the rows are written, in the same
        pass; results, logs and Dagster's asset checks show the counts. In an upsert they do not
        apply to rows where `deletes_when` is true.

        Args:
            name: For people; unique within the dataset.
            condition: SQL over the query's columns, without subqueries. A row breaks it when it is
                false or NULL (as in Databricks' expectations; a CHECK constraint accepts NULL).

        Raises:
            DeclarationError: The name or the condition is not a string.

        Example:
            >>> import delta_pipelines as dp
            >>> p = dp.Pipeline("p", schema="s")
            >>> @p.materialized_view
            ... @p.expect("plausible delay", "dep_delay BETWEEN -60 AND 2880")
            ... def flights(spark):
            ...     return spark.read.parquet("landing/flights")
        """
        return self._expect(name, condition, "warn")

    def expect_or_drop(self, name: str, condition: str) -> Decorator:
        """Leave out the rows that break a condition, and count them.

        Args:
            name: As for `expect`.
            condition: As for `expect`.

        Raises:
            DeclarationError: The name or the condition is not a string.

        Example:
            >>> import delta_pipelines as dp
            >>> p = dp.Pipeline("p", schema="s")
            >>> @p.upsert(keys=["icao"])
            ... @p.expect_or_drop("has a code", "icao IS NOT NULL")
            ... def airports(spark):
            ...     return spark.read.json("landing/airports")
        """
        return self._expect(name, condition, "drop")

    def expect_or_fail(self, name: str, condition: str) -> Decorator:
        """Fail the whole refresh when a row breaks a condition: its table stays as it was.

        In a stream only the micro-batch fails; the rows of earlier batches stay.

        Args:
            name: As for `expect`.
            condition: As for `expect`.

        Raises:
            DeclarationError: The name or the condition is not a string.

        Example:
            >>> import delta_pipelines as dp
            >>> p = dp.Pipeline("p", schema="s")
            >>> @p.materialized_view
            ... @p.expect_or_fail("known carrier", "carrier IN ('AA', 'UA')")
            ... def flights(spark):
            ...     return spark.read.parquet("landing/flights")
        """
        return self._expect(name, condition, "fail")

    def _expect(self, name: str, condition: str, action: ExpectationAction) -> Decorator:
        with located(None, location_of_caller()):
            if check_text(name, "name") is None or check_text(condition, "condition") is None:
                raise DeclarationError("An expectation needs a name and a condition, as strings.")
        expectation = Expectation(name, condition, action)
        unapplied = Problem(
            f"the expectation {name!r} does not decorate a function: put it, with @, next to the "
            f"dataset's decorator.",
            None,
            location_of_caller(),
        )
        self._unapplied.append(unapplied)

        def decorate(function: G, /) -> G:
            # A decorator may be stored in a variable and applied to several datasets.
            self._unapplied = [other for other in self._unapplied if other is not unapplied]
            if not callable(function):
                raise DeclarationError(
                    f"An expectation decorates a dataset's function, not {function!r}; for SQL "
                    f"text, write the condition into its WHERE."
                )
            # Python applies decorators from bottom to top.
            self._expected.insert(0, _Expected(function, expectation))
            return function

        return decorate

    def _with_expectations(self, declaration: Declaration) -> Declaration:
        function = declaration.query.function if declaration.query else None
        if function is None:
            return declaration
        found = tuple(e.expectation for e in self._expected if e.function is function)
        return replace(declaration, expectations=found) if found else declaration

    def _without_dataset(self, declarations: Iterable[Declaration]) -> list[Problem]:
        """Expectations without a function, or on a function that is not a dataset, as problems."""
        functions = {id(d.query.function) for d in declarations if d.query and d.query.function}
        misplaced = [
            Problem(
                f"the expectation {e.expectation.name!r} decorates a function that is not a "
                f"dataset of this pipeline. Put it directly above or below the dataset's "
                f"decorator. No decorator that wraps the function may be between them.",
                getattr(e.function, "__name__", None),
                location_of_function(e.function),
            )
            for e in self._expected
            if id(e.function) not in functions
        ]
        return [*self._unapplied, *misplaced]
