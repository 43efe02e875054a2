"""The decorators by which expectations are declared."""

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
    """An expectation and the function whose rows it is about."""

    function: QueryFunction
    expectation: Expectation


class DeclaresExpectations:
    """Records expectations by function, above or below the function's dataset decorator."""

    def __init__(self) -> None:
        self._expected: list[_Expected] = []
        self._unapplied: list[Problem] = []

    def expect(self, name: str, condition: str) -> Decorator:
        """Count the rows that break a condition; they are written all the same.

        Expectations stand beside the decorator of a materialized view, streaming table, append flow
        or upsert that is a function. They are looked at while the rows are written, in the same
        pass; results, logs and Dagster's asset checks show the counts. In an upsert they apply to
        the rows that are kept, not to those that `deletes_when` marks.

        Args:
            name: For people; unique within the dataset.
            condition: SQL over the query's columns, without subqueries. A row keeps to it where it
                is true; false and NULL break it (so do Databricks' expectations, and unlike them a
                CHECK constraint).

        Raises:
            DeclarationError: The name or the condition is no string.

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
            DeclarationError: The name or the condition is no string.

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
        """Refuse the whole refresh when a row breaks a condition: its table stays as it was.

        Of a stream the micro-batch is refused; what earlier ones brought stays.

        Args:
            name: As for `expect`.
            condition: As for `expect`.

        Raises:
            DeclarationError: The name or the condition is no string.

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
                raise DeclarationError("An expectation has a name and a condition, as strings.")
        expectation = Expectation(name, condition, action)
        unapplied = Problem(
            f"the expectation {name!r} decorates no function: put it, with @, next to the "
            f"dataset's decorator.",
            None,
            location_of_caller(),
        )
        self._unapplied.append(unapplied)

        def decorate(function: G, /) -> G:
            # One may be kept under a name, for several datasets.
            self._unapplied = [one for one in self._unapplied if one is not unapplied]
            if not callable(function):
                raise DeclarationError(
                    f"An expectation decorates a dataset's function, not {function!r}; a dataset "
                    f"of SQL text says it in its WHERE."
                )
            # Decorators come from the bottom of the text to its top.
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
        """Expectations of no function, or of one that is no dataset's, as problems."""
        functions = {id(d.query.function) for d in declarations if d.query and d.query.function}
        misplaced = [
            Problem(
                f"the expectation {e.expectation.name!r} is about a function that is no dataset of "
                f"the pipeline. Put it next to the dataset's decorator: one that wraps the "
                f"function may not stand between them.",
                getattr(e.function, "__name__", None),
                location_of_function(e.function),
            )
            for e in self._expected
            if id(e.function) not in functions
        ]
        return [*self._unapplied, *misplaced]
