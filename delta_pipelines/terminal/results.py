"""What a run did, as a table for the terminal."""

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from delta_pipelines.flows.results import DatasetResult

STYLES = {"completed": "green", "unchanged": "dim", "skipped": "yellow", "failed": "bold red"}


def results_table(results: Iterable[DatasetResult]) -> Table:
    """One line per dataset: what was done, why, how many rows, which version, how long.

    Args:
        results: In any order.
    """
    table = Table(title_justify="left", pad_edge=False, box=None, header_style="bold")
    table.add_column("dataset")
    table.add_column("status")
    table.add_column("action")
    table.add_column("rows", justify="right")
    table.add_column("+", justify="right")
    table.add_column("~", justify="right")
    table.add_column("-", justify="right")
    table.add_column("version", justify="right")
    table.add_column("seconds", justify="right")
    table.add_column("why", ratio=1)
    for result in results:
        table.add_row(
            result.name,
            Text(result.status, style=STYLES[result.status]),
            result.action.replace("_", " "),
            _number(result.rows),
            _number(result.metrics.get("numTargetRowsInserted")),
            _number(result.metrics.get("numTargetRowsUpdated")),
            _number(result.metrics.get("numTargetRowsDeleted")),
            _number(result.version),
            f"{result.seconds:.1f}",
            Text(result.reason),
        )
    return table


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
