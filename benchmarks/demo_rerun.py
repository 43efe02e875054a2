"""The demo's pipeline over its real data in a warm session: a rerun in which nothing changed.

Against the run that made everything. Needs the data: `python -m examples.aviation.fetch`.
"""

import statistics
import time

from benchmarks.timing import Contest
from benchmarks.warm_session import warm_session
from examples.aviation.pipeline import aviation


def run(rounds: int = 5) -> list[Contest]:
    """Time both, one after the other; the schema goes before every first run.

    Args:
        rounds: Rounds that count; one more warms up.
    """
    first, again = [], []
    with warm_session() as (spark, _):
        for number in range(-1, rounds):
            spark.sql("DROP SCHEMA IF EXISTS aviation CASCADE")
            started = time.perf_counter()
            aviation.run(spark)
            middle = time.perf_counter()
            result = aviation.run(spark)
            ended = time.perf_counter()
            statuses = {one.status for one in result.results.values()}
            if statuses != {"unchanged"}:
                raise AssertionError(f"the rerun did something: {statuses}")
            if number >= 0:
                first.append(middle - started)
                again.append(ended - middle)
    datasets = len(result.results)
    return [
        Contest(
            f"the demo's {datasets} datasets, nothing changed",
            {"first run": first, "rerun": again},
            "first run",
            {"rerun": 0.05},
            {"rerun per dataset, ms": round(statistics.median(again) / datasets * 1000, 1)},
        )
    ]
