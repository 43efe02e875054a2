"""A change of a source's columns while a stream reads it."""

from delta_pipelines.errors import DatasetError
from delta_pipelines.graph.graph import Table


class SourceChanged(Exception):
    """The source's columns changed while it was read; a restarted stream has the new ones.

    Args:
        error: Reported when restarts do not help.
        text: Describes the change; the same text twice in a row means that it does not help.
    """

    def __init__(self, error: DatasetError, text: str) -> None:
        self.error = error
        self.text = text
        super().__init__(str(error))


def other_columns(table: Table) -> DatasetError:
    """The error for a full refresh whose sources changed their columns again and again."""
    return DatasetError(
        "the columns of its streams changed while they were read; nothing was written. Run it "
        "again.",
        dataset=table.name,
        transient=True,
    )
