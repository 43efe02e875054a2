"""An exception at any step of any kind of refresh: before the commit nothing has happened, and a
rerun ends as a run that never failed.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from pyspark.sql import SparkSession

from delta_pipelines.pipeline import Pipeline
from delta_pipelines.steps import Step, observing
from delta_pipelines_tests.pipelines import (
    Feed,
    Injected,
    Seen,
    failure,
    merged,
    mirror,
    once_at,
    raising,
    run,
    run_well,
    scratch,
    seen,
    seen_view,
)

AFTER_COMMIT = (Step.REGISTER, Step.RECACHE)


@dataclass
class Kind:
    """One kind of change of a dataset `t`, that can be made again and again.

    Args:
        begin: Makes what must exist before the first change.
        change: Declares the pipeline for change number n (from 0).
        full: True when the change is a full refresh.
        look: What a user sees of `t`.
        undo: Takes a change back, so that the next one starts as the first did.
        period: After so many changes the table is as it was before them; 0 for never.
    """

    spark: SparkSession
    schema: str
    begin: Callable[[], object]
    change: Callable[[int], Pipeline]
    full: bool = False
    look: Callable[[SparkSession, str], Seen | None] = seen
    undo: Callable[[], object] | None = None
    period: int = 0

    def run(self, pipeline: Pipeline):
        return run(pipeline, self.spark, full_refresh=["t"] if self.full else ()).results["t"]

    def seen(self) -> Seen | None:
        return self.look(self.spark, f"{self.schema}.t")


FEED = "id INT, v STRING"


def create(spark, schema):
    feed = Feed(FEED, (1, "a"))

    def change(number):
        pipeline = scratch(schema)
        mirror(pipeline, "t", feed, comment="made", table_properties={"k": "v"})
        return pipeline

    def drop():
        spark.sql(f"DROP TABLE {schema}.t")

    return Kind(spark, schema, lambda: None, change, undo=drop, period=1)


def refresh(spark, schema, *, full=False):
    """Every change is another column, property, comment and row."""

    def change(number):
        feed = Feed(f"id INT, c{number} STRING", (number, "a"))
        pipeline = scratch(schema)
        comment, properties = f"number {number}", {"k": str(number), f"p{number}": "x"}
        mirror(pipeline, "t", feed, comment=comment, table_properties=properties)
        return pipeline

    return Kind(spark, schema, lambda: run_well(change(1), spark), change, full=full, period=2)


def full_refresh(spark, schema):
    return refresh(spark, schema, full=True)


def upsert_merge(spark, schema):
    """Every change updates a row; they insert and delete another one in turns."""
    feed = Feed(FEED, (1, "v1"), (2, "stays"))

    def change(number):
        feed.set((1, f"v{number}"), (3, "gone" if number else "new"))
        return declared()

    def declared():
        pipeline = scratch(schema)
        merged(pipeline, "t", feed, keys=["id"], deletes_when="v = 'gone'")
        return pipeline

    return Kind(spark, schema, lambda: run_well(declared(), spark), change, period=2)


def upsert_drift(spark, schema):
    """Every change brings a new column, a property and a comment to one old and one new row."""

    def declared(number):
        names = [f"c{n}" for n in range(number + 1)]
        columns = ", ".join(["id INT", *[f"{name} STRING" for name in names]])
        values = [f"v{number}"] * len(names)
        feed = Feed(columns, (1, *values), (10 + number, *values))
        pipeline = scratch(schema)
        properties = {"k": str(number)}
        merged(pipeline, "t", feed, keys=["id"], comment=f"n{number}", table_properties=properties)
        return pipeline

    return Kind(spark, schema, lambda: run_well(declared(0), spark), lambda n: declared(n + 1))


def view_publish(spark, schema):
    """Every change gives the view another column and comment."""

    def declared(number):
        pipeline = scratch(schema)
        pipeline.view(
            "t", f"SELECT 1 AS c{number}", comment=f"n{number}", table_properties={"k": str(number)}
        )
        return pipeline

    return Kind(
        spark,
        schema,
        lambda: run_well(declared(1), spark),
        declared,
        look=seen_view,
        period=2,
    )


KINDS = {
    "create": (create, [Step.ANALYSE, Step.BEGIN, Step.DEFINE, Step.WRITE, Step.COMMIT]),
    "refresh": (refresh, [Step.ANALYSE, Step.BEGIN, Step.DEFINE, Step.WRITE, Step.COMMIT]),
    "full refresh": (full_refresh, [Step.ANALYSE, Step.BEGIN, Step.DEFINE, Step.WRITE]),
    "upsert merge": (upsert_merge, [Step.ANALYSE, Step.BEGIN]),
    "upsert with drift": (upsert_drift, [Step.ANALYSE, Step.BEGIN, Step.DEFINE, Step.WRITE]),
    "view publish": (view_publish, [Step.ANALYSE, Step.PUBLISH]),
}


def steps_of_clean_runs(make, spark, schema: str) -> tuple[list[Step], list[Seen]]:
    """Make the changes one after the other without a failure.

    Returns:
        The steps that a change passes, and what is seen after each change.
    """
    spark.sql(f"CREATE SCHEMA {schema}")
    kind = make(spark, schema)
    kind.begin()
    passed: list[Step] = []
    clean = []

    def observer(step: Step, dataset: str) -> None:
        if dataset.replace("`", "") == f"{schema}.t" and step not in passed:
            passed.append(step)

    with observing(observer):
        while len(clean) < (kind.period or max(1, len(passed))):
            kind.run(kind.change(len(clean)))
            clean.append(kind.seen())
    spark.sql(f"DROP SCHEMA {schema} CASCADE")
    return passed, clean


@pytest.mark.parametrize("name", list(KINDS))
def test_a_failure_at_any_step_leaves_all_as_before_and_a_rerun_ends_as_a_clean_run(
    spark, schema, name, capsys
):
    make, expected = KINDS[name]
    steps, clean = steps_of_clean_runs(make, spark, f"{schema}_clean")
    assert set(expected) <= set(steps), "the list of steps is the real one"

    kind = make(spark, schema)
    kind.begin()
    for count, step in enumerate(steps):
        cell, number = f"{name} x {step.value}", count % len(clean)
        if kind.undo and count:
            kind.undo()
        before = kind.seen()
        pipeline = kind.change(number)
        with once_at(step, f"{schema}.t", raising(Injected(cell))):
            error = failure(kind.run(pipeline))
        assert cell in str(error)
        if step not in AFTER_COMMIT:
            assert kind.seen() == before, f"{cell}: something was written"
        again = kind.run(pipeline)
        assert again.status in ("completed", "unchanged"), f"{cell}: {again.error}"
        after = kind.seen()
        assert after is not None
        assert after.content == clean[number].content, f"{cell}: not as a clean run"
    told = f"\n{name}: {len(steps)} cells: {', '.join(step.value for step in steps)} "
    with capsys.disabled():
        sys.stdout.write(told)
