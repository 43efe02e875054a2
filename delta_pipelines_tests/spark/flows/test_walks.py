"""The model-based test: long random walks over a pipeline, against an oracle in plain Python."""

import resource
import time

import pytest

from delta_pipelines_tests.walk import Walker, shorter, walk, weight

SHORTENINGS = 30
"""How often a failing walk is tried again in a shorter form."""


@pytest.mark.parametrize(
    ("seed", "steps"),
    [(7, 500), *(pytest.param(n, 1000, marks=pytest.mark.soak) for n in range(100, 110))],
)
@pytest.mark.timeout(3600)
def test_a_random_walk_leaves_what_the_oracle_says(spark, schema, seed, steps, record_property):
    began, cpu = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_utime
    actions = walk(seed, steps)
    walker = Walker(spark, schema)
    for number, action in enumerate(actions):
        try:
            walker.do(action)
        except AssertionError as error:
            told = f"seed {seed}, action {number}: {action}: {error}"
            shortest = shortened(spark, schema, actions[: number + 1])
            raise AssertionError(f"{told}\n{shortest}") from error
    walker.check_all()
    counted = dict(sorted(walker.counted.items()))
    assert sum(map(weight, actions)) >= steps
    assert min(counted[rule] for rule in ("failed", "completed", "unchanged", "stranger")) > 0
    spent = resource.getrusage(resource.RUSAGE_SELF).ru_utime - cpu
    record_property(
        "proved",
        f"model: seed {seed}, {sum(map(weight, actions))} steps, 0 differences, {counted}, "
        f"{time.monotonic() - began:.0f} s ({spent:.0f} s of this process)",
    )


def shortened(spark, schema, actions) -> str:
    """The fewest actions that still fail, as far as the tries last."""
    tries = iter(range(SHORTENINGS))

    def fails(tried) -> bool:
        number = next(tries, None)
        if number is None:
            return False
        name = f"{schema}_{number}"
        spark.sql(f"CREATE SCHEMA {name}")
        walker = Walker(spark, name)
        try:
            for action in tried:
                walker.do(action)
        except AssertionError:
            return True
        return False

    kept = shorter(actions, fails)
    return "\n".join(["It fails with these alone:", *map(str, kept)])
