"""A run's results as a table for the terminal."""

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from delta_pipelines.model.results import DatasetResult

STYLES = {"completed": "green", "unchanged": "dim", "skipped": "yellow", "failed": "bold red"}

_COUNTS = (
    ("+", "numTargetRowsInserted"),
    ("~", "numTargetRowsUpdated"),
    ("-", "numTargetRowsDeleted"),
)


def results_table(results: Iterable[DatasetResult]) -> Table:
    """Show one line per dataset: action, rows, changed rows, version, seconds."""
    table = Table(pad_edge=False, box=None, header_style="bold")
    table.add_column("dataset", no_wrap=True)
    table.add_column("status", no_wrap=True)
    table.add_column("action", no_wrap=True)
    table.add_column("rows", justify="right", no_wrap=True)
    table.add_column("changes", no_wrap=True)
    table.add_column("version", justify="right", no_wrap=True)
    table.add_column("seconds", justify="right", no_wrap=True)
    for result in results:
        table.add_row(
            result.name,
            Text(result.status, style=STYLES[result.status]),
            result.action.replace("_", " "),
            _number(result.rows),
            _changes(result),
            _number(result.version),
            f"{result.seconds:.1f}",
        )
    return table


def remarks(results: Iterable[DatasetResult]) -> list[str]:
    """Remarks that do not fit into the table, one line each.

    They say why a dataset was not refreshed as requested, which partitions were computed, how many
    attempts it took, and which expectations its rows violated.
    """
    lines = []
    for result in results:
        if (
            result.reset_blocked
            or result.status in ("skipped", "unchanged")
            or (result.partitions is not None and result.partitions.refreshed)
        ):
            lines.append(f"{result.name}: {result.reason}")
        if result.attempts > 1:
            lines.append(f"{result.name}: took {result.attempts} attempts")
        lines += [
            f"{result.name}: {expectation}."
            for expectation in result.expectations
            if not expectation.passed
        ]
    return lines


def _changes(result: DatasetResult) -> str:
    """Counts of inserted, updated and deleted rows: `+3 ~1 -2`."""
    appended = [("+", "numOutputRows")] if result.kind == "streaming_table" else []
    counts = ((sign, result.metrics.get(name)) for sign, name in (*appended, *_COUNTS))
    return " ".join(f"{sign}{count:,}" for sign, count in counts if count)


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
