"""The model-based test: random walks over a pipeline, against an oracle in plain Python."""

import itertools
import resource
import time
from collections import Counter
from functools import partial

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from delta_pipelines_tests.support.pipeline_walk import Walk

pytestmark = pytest.mark.promise(6)
_EACH = ("completed", "failed", "refused", "rules", "stranger", "unchanged")


@pytest.mark.parametrize(
    ("first", "walks", "runs", "steps"),
    [
        (7, 2, 12, 350),
        *(pytest.param(n, 11, 20, 1000, marks=pytest.mark.soak) for n in range(100, 105)),
    ],
)
@pytest.mark.timeout(3600)
def test_random_walks_leave_what_the_oracle_says(
    spark, schema, first, walks, runs, steps, share, record_property
):
    began, cpu = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_utime
    counted = Counter[str]()
    numbers = itertools.count()
    seeds = []

    def own_schema() -> str:
        name = f"{schema}_{next(numbers)}"
        spark.sql(f"CREATE SCHEMA {name}")
        return name

    # Hypothesis chooses how long a walk is, and what is in it.
    while counted["steps"] < steps or not all(counted[what] for what in _EACH):
        seeds.append(first + share.number % share.parts + 1000 * len(seeds))
        run_state_machine_as_test(
            seed(seeds[-1])(partial(Walk, spark, own_schema, counted)),
            settings=settings(
                max_examples=walks,
                stateful_step_count=runs,
                deadline=None,
                database=None,
                report_multiple_bugs=False,
                suppress_health_check=list(HealthCheck),
            ),
        )
    rule_counts = ", ".join(f"{rule} {count}" for rule, count in sorted(counted.items()))
    spent = resource.getrusage(resource.RUSAGE_SELF).ru_utime - cpu
    record_property(
        "proved",
        f"model: seeds {seeds}, {next(numbers)} walks, 0 differences, {rule_counts}, "
        f"{time.monotonic() - began:.0f} s ({spent:.0f} s of this process)",
    )
