"""The model-based test: random walks over a pipeline, against an oracle in plain Python."""

import itertools
import math
import resource
import time
from collections import Counter
from functools import partial

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from delta_pipelines_tests.support.pipeline_walk import Walk


@pytest.mark.parametrize(
    ("number", "walks", "runs", "steps"),
    [
        (7, 5, 12, 300),
        *(pytest.param(n, 11, 20, 1000, marks=pytest.mark.soak) for n in range(100, 110)),
    ],
)
@pytest.mark.timeout(3600)
def test_random_walks_leave_what_the_oracle_says(
    spark, schema, number, walks, runs, steps, share, record_property
):
    number += share.number % share.parts
    walks, steps = math.ceil(walks / share.parts), steps // (2 * share.parts - 1)  # walks differ
    began, cpu = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_utime
    counted = Counter[str]()
    numbers = itertools.count()

    def own_schema() -> str:
        name = f"{schema}_{next(numbers)}"
        spark.sql(f"CREATE SCHEMA {name}")
        return name

    run_state_machine_as_test(
        seed(number)(partial(Walk, spark, own_schema, counted)),
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
    assert counted["steps"] >= steps, rule_counts
    assert min(counted[rule] for rule in ("failed", "completed", "unchanged", "stranger")) > 0
    spent = resource.getrusage(resource.RUSAGE_SELF).ru_utime - cpu
    record_property(
        "proved",
        f"model: seed {number}, {next(numbers)} walks, 0 differences, {rule_counts}, "
        f"{time.monotonic() - began:.0f} s ({spent:.0f} s of this process)",
    )
