"""`python -m benchmarks small_tables streaming ... [--rounds N] [--json FILE]`: prints ratios.

DELTA_PIPELINES_BENCHMARK_CASES chooses cases of `merge` and `merge_shapes` by parts of their names,
separated by `|` (`20 M` names those that run on demand only). DELTA_PIPELINES_BENCHMARK_ROWS says
how many rows their targets have at most: 20000 for a try; its figures mean nothing.
"""

import argparse
import importlib
from pathlib import Path

from benchmarks.timing import report

NAMES = (
    "small_tables",
    "demo_rerun",
    "small_views",
    "streaming",
    "partition_refresh",
    "staged_full_refresh",
    "scaling",
    "thousand_datasets",
    "merge",
    "merge_shapes",
)


def main() -> None:
    """Run benchmarks by name."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], default=list(NAMES))
    parser.add_argument("--rounds", type=int, help="rounds that count (default: each one's own)")
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--datasets", type=int, nargs="+", help="sizes for `thousand_datasets`")
    options = parser.parse_args()
    contests = []
    for name in options.names or NAMES:
        module = importlib.import_module(f"benchmarks.{name}")
        given = {} if options.rounds is None else {"rounds": options.rounds}
        if name == "thousand_datasets" and options.datasets:
            given["sizes"] = options.datasets
        contests += module.run(**given)
    report(contests, options.json)


if __name__ == "__main__":
    main()
