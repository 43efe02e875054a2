"""What the tests of the delta room share: a table's name, and ways to write and look at it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from py4j.clientserver import ClientServerConnection
from py4j.protocol import MEMORY_COMMAND_NAME
from pyspark.sql import DataFrame, SparkSession

from delta_pipelines.delta.log.loading import load_table
from delta_pipelines.delta.write.transaction import begin
from delta_pipelines.model.column_types import nullable
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.table_definition import TableDefinition
from delta_pipelines.model.table_state import Commit, TableState

Put = Callable[..., Commit]
RoundTrips = Callable[[Callable[[], object]], list[str]]


@pytest.fixture
def table(schema: str) -> Identifier:
    """A table that does not exist yet."""
    return Identifier(None, schema, "t")


@pytest.fixture
def put(spark: SparkSession, table: Identifier) -> Put:
    """Define the table and replace its rows, in one transaction."""

    def run(rows: DataFrame, **definition: Any) -> Commit:
        transaction = begin(spark, table)
        transaction.define(TableDefinition(nullable(rows.schema), **definition))
        transaction.replace(rows)
        return transaction.commit(user_metadata={"run": "r1"})

    return run


class Looking:
    """Looks at a table the way a user would."""

    def __init__(self, spark: SparkSession, table: Identifier) -> None:
        self.spark = spark
        self.table = table

    def rows(self) -> list[tuple[Any, ...]]:
        """All rows, sorted."""
        return sorted(tuple(row) for row in self.spark.table(str(self.table)).collect())

    def history(self) -> list[Any]:
        """Commits, newest first."""
        return self.spark.sql(f"DESCRIBE HISTORY {self.table}").collect()

    def state(self) -> TableState:
        """The table's state; it must exist."""
        state = load_table(self.spark, self.table)
        assert state is not None
        return state

    def detail(self) -> Any:
        """The row of DESCRIBE DETAIL."""
        return self.spark.sql(f"DESCRIBE DETAIL {self.table}").first()

    def actions(self, version: int) -> list[dict[str, Any]]:
        """The actions of one commit, from its log file."""
        folder = Path(self.state().location.removeprefix("file:"))
        text = (folder / "_delta_log" / f"{version:020}.json").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def look(spark: SparkSession, table: Identifier) -> Looking:
    """Looks at the table."""
    return Looking(spark, table)


@pytest.fixture
def round_trips(monkeypatch) -> RoundTrips:
    """What a piece of work sends to the JVM, command by command."""

    def run(work: Callable[[], object]) -> list[str]:
        sent: list[str] = []
        send = ClientServerConnection.send_command

        def record_and_send(self: ClientServerConnection, command: str) -> str:
            # Python's garbage collection speaks too, of what any test before has left.
            if not command.startswith(MEMORY_COMMAND_NAME):
                sent.append(command)
            return str(send(self, command))

        with monkeypatch.context() as patch:
            patch.setattr(ClientServerConnection, "send_command", record_and_send)
            work()
        return sent

    return run
