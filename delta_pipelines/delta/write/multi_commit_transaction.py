"""Write a table with Spark's public API, in several commits.

Used outside the session catalog, and if Delta's transaction classes are not the tested ones. The
first commit writes rows and schema; then layout, properties and comment follow, one commit each. A
failure in between leaves the table with its new rows and some old properties; the next run
completes them. Nothing is written before `commit`.
"""

import json
from collections.abc import Mapping, Sequence

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from delta_pipelines.delta.jvm.spark_errors import explained
from delta_pipelines.delta.log.describe_detail import described_table
from delta_pipelines.delta.write.alter_statements import (
    cluster_by,
    comment_on,
    set_properties,
    unset_properties,
)
from delta_pipelines.delta.write.optimistic_transaction import METRICS
from delta_pipelines.delta.write.partition_values import checked_partitions
from delta_pipelines.delta.write.row_casts import conform
from delta_pipelines.errors import DatasetError, SchemaChangeError
from delta_pipelines.model.column_types import nullable
from delta_pipelines.model.constraints import constraints_of
from delta_pipelines.model.identifiers import Identifier, quoted
from delta_pipelines.model.run_steps import Step, reached
from delta_pipelines.model.schema_mapping import (
    DEFAULT,
    GENERATED,
    Layout,
    declared_schema,
    needs_new_files,
)
from delta_pipelines.model.setting_names import COLUMN_MAPPING_MODE
from delta_pipelines.model.table_definition import (
    OWNER,
    TableDefinition,
    check_definition,
    is_protocol,
    needs_column_mapping,
)
from delta_pipelines.model.table_state import Commit, TableState


class SeveralCommits:
    """Writes a table in several commits; the interface is `Transaction`.

    Args:
        identifier: The table; its schema must exist.
        reason: Why one commit is not possible.
    """

    atomic = False

    def __init__(self, spark: SparkSession, identifier: Identifier, reason: str) -> None:
        self.identifier = identifier
        self.reason: str | None = reason
        self._spark = spark
        self._dataset = str(identifier)
        self._name = identifier.quoted
        reached(Step.BEGIN, self._dataset)
        with explained(self._dataset):
            self.base: TableState | None = described_table(spark, identifier)
        self.landed: int | None = None
        self._definition: TableDefinition | None = None
        self._rows: list[DataFrame] = []
        self._cleared = self._done = False
        self._predicate: str | None = None
        self._txn_version: tuple[str, int] | None = None

    def define(self, definition: TableDefinition) -> None:
        """Store the definition for `commit`; does nothing if all is equal."""
        if self._rows or self._definition is not None:
            raise DatasetError(
                "define the table only once, and before its rows.", dataset=self._dataset
            )
        reached(Step.DEFINE, self._dataset)
        check_definition(definition, self._dataset)
        ruled = [f.name for f in definition.schema if {DEFAULT, GENERATED} & f.metadata.keys()]
        if definition.has_rules and ruled:
            raise DatasetError(
                f"column {', '.join(ruled)} has a declared default or is generated, which needs a "
                f"write in one commit, and that is not possible here: {self.reason}",
                dataset=self._dataset,
            )
        has = constraints_of(self.base.properties) if self.base else {}
        new = [
            name
            for name, condition in constraints_of(definition.properties).items()
            if self.base is not None and has.get(name) != condition
        ]
        if new:
            # A property alone would make Delta believe that the rows obey the constraint.
            raise DatasetError(
                f"CHECK constraint {', '.join(new)} is new, and the rows can only be checked in "
                f"the commit that adds it, which is not possible here: {self.reason} Add it by "
                f"ALTER TABLE {self.identifier} ADD CONSTRAINT, which checks them, then run again.",
                dataset=self._dataset,
            )
        if self.base is None or definition != self.base.definition:
            self._definition = definition

    def replace(self, rows: DataFrame) -> None:
        """Store rows for `commit`, which replaces all old rows."""
        self.clear()
        self.append(rows)

    def append(self, rows: DataFrame) -> None:
        """Store rows for `commit`, which adds them."""
        if self.base is None and self._definition is None:
            raise DatasetError(
                "the table is new: define it before you write rows.", dataset=self._dataset
            )
        reached(Step.WRITE, self._dataset)
        wanted = self._definition or self.base
        assert wanted is not None
        with explained(self._dataset):
            fitted = conform(rows, self._schema(), self._dataset)
            self._rows.append(checked_partitions(fitted, wanted.partition_columns))

    @property
    def entry(self) -> None:
        """Always None: the table's catalog may not be the session catalog."""

    @property
    def output_rows(self) -> int | None:
        """Unknown before the commit."""
        return None

    def clear(self) -> None:
        """Make `commit` remove all rows."""
        if self._cleared:
            raise DatasetError(
                "old rows are already staged for removal; replace or clear the table only once.",
                dataset=self._dataset,
            )
        self._cleared = True

    def rows_of_files(self, paths: Sequence[str]) -> DataFrame:
        """Read the rows of some files, by their `_metadata.file_path`."""
        rows = self._spark.table(self._name)
        return rows.where(F.col("_metadata.file_path").isin(list(paths)))

    def replace_files(self, paths: Sequence[str], rows: DataFrame) -> None:
        """Not possible here: a reader could see rows twice or not at all.

        Raises:
            DatasetError: Always.
        """
        raise DatasetError(
            f"single files can only be replaced in one commit, which is not possible here: "
            f"{self.reason} Use Delta's own MERGE.",
            dataset=self._dataset,
        )

    def replace_where(self, rows: DataFrame, condition: str, *, whole_files: bool) -> int | None:
        """Store rows for `commit`, which replaces the rows of a condition by them."""
        self._predicate = condition
        self.append(rows)
        return None

    def remember(self, app_id: str, version: int) -> None:
        """Record an application's batch with the write; Delta skips a batch that it already has."""
        self._txn_version = (app_id, version)

    def remembered(self, app_id: str) -> int | None:
        """Always None (unknown here): Delta itself skips a batch that it already has."""
        return None

    def commit(self, *, user_metadata: Mapping[str, object]) -> Commit:
        """Write rows and schema, then layout, properties and comment.

        Raises:
            DatasetError: A step failed; the message names it.
            SchemaChangeError: The new definition requires that all rows are replaced, and they were
                not.
        """
        if self._done:
            raise DatasetError(
                "the transaction is already committed; begin a new one.", dataset=self._dataset
            )
        self._check()
        nothing = self._definition is None and not self._rows and not self._cleared
        if self.base is not None and nothing and self._txn_version is None:
            base = self.base
            metrics = dict.fromkeys(METRICS, 0)
            return Commit(base.version, base.table_id, base.location, metrics, changed=False)
        text = json.dumps(user_metadata, default=str, sort_keys=True)
        reached(Step.COMMIT, self._dataset)
        with explained(self._dataset):
            if self.base is None:
                self._create()
            elif self._cleared or self._predicate is not None:
                self._check_unmoved(self.base)
            self._prepare_names()
            wrote = self._write(text)
            if self.base is not None:
                self._alter(self.base)
            self._done, self.landed = True, wrote
            reached(Step.RECACHE, self._dataset)
            self._spark.catalog.refreshTable(self._name)
            state = described_table(self._spark, self.identifier)
        assert state is not None
        return Commit(state.version, state.table_id, state.location, self._counts(wrote))

    def _schema(self) -> StructType:
        if self._definition is not None:
            return declared_schema(self._definition.schema)
        assert self.base is not None
        return self.base.schema

    def _check(self) -> None:
        if self.base is None:
            if self._definition is None:
                raise DatasetError("the table is new: define it first.", dataset=self._dataset)
            return
        if self._definition is None:
            return
        schema = self._schema()
        current = Layout(self.base.schema, self.base.partition_columns, self._is_mapped())
        wanted = Layout(schema, self._definition.partition_columns, self._is_mapped())
        reasons = needs_new_files(current, wanted)
        if reasons and not self._cleared:
            raise SchemaChangeError(
                f"{'; '.join(reasons)}: all rows must be replaced (run a full refresh).",
                dataset=self._dataset,
            )
        if schema != self.base.schema and schema != nullable(schema):
            raise SchemaChangeError(
                "the schema of an existing table cannot change in several commits while it has NOT "
                f"NULL columns: {self.reason} Drop the table, or make the columns nullable.",
                dataset=self._dataset,
            )

    def _check_unmoved(self, base: TableState) -> None:
        """Raise if another writer has committed since the new rows were computed.

        Delta does not detect this conflict: its overwrite begins after that commit.
        """
        now = described_table(self._spark, self.identifier)
        if now is None or now.log_end != base.log_end:
            raise DatasetError(
                "another writer changed the table while its new rows were computed; nothing was "
                "written. Running it again can help.",
                dataset=self._dataset,
                transient=True,
            )

    def _is_mapped(self) -> bool:
        assert self.base is not None
        return self.base.properties.get(COLUMN_MAPPING_MODE, "none") != "none"

    def _create(self) -> None:
        definition = self._definition
        assert definition is not None
        builder = DeltaTable.create(self._spark).tableName(self._name)
        builder = builder.addColumns(self._schema())
        for key, value in {OWNER: self._dataset, **definition.properties}.items():
            builder = builder.property(key, value)
        if needs_column_mapping(definition.schema):
            builder = builder.property(COLUMN_MAPPING_MODE, "name")
        if definition.comment:
            builder = builder.comment(definition.comment)
        if definition.partition_columns:
            builder = builder.partitionedBy(*definition.partition_columns)
        if definition.cluster_columns:
            builder = builder.clusterBy(*definition.cluster_columns)
        builder.execute()

    def _prepare_names(self) -> None:
        if self.base is None or self._definition is None or self._is_mapped():
            return
        if needs_column_mapping(self._definition.schema):
            self._spark.sql(set_properties(self.identifier, {COLUMN_MAPPING_MODE: "name"}))

    def _write(self, user_metadata: str) -> int | None:
        schema = self._schema()
        changes = self.base is not None and schema != self.base.schema
        if not self._rows and not self._cleared and not changes and self._txn_version is None:
            return None
        rows = self._rows[0] if self._rows else self._spark.createDataFrame([], schema)
        for more in self._rows[1:]:
            rows = rows.unionByName(more, allowMissingColumns=True)
        # The writer takes comments from the columns, not from the table.
        named = {f.name: f for f in schema.fields}
        rows = rows.select(
            *[
                F.col(quoted(name)).alias(name, metadata=named[name].metadata)
                for name in rows.columns
            ]
        )
        overwrite = self._cleared and self.base is not None
        writer = rows.write.format("delta").mode("overwrite" if overwrite else "append")
        writer = writer.option("userMetadata", user_metadata)
        # With a dynamic mode in the session, partitions without new rows would stay.
        writer = writer.option("partitionOverwriteMode", "static")
        if self._predicate is not None and self.base is not None:
            writer = writer.mode("overwrite").option("replaceWhere", self._predicate)
        if self._txn_version is not None:
            app_id, version = self._txn_version
            writer = writer.option("txnAppId", app_id).option("txnVersion", version)
        _lay_out(writer, self._definition, self.base, overwrite=overwrite, changes=changes)
        writer.saveAsTable(self._name)
        latest = self._spark.sql(f"DESCRIBE HISTORY {self._name} LIMIT 1").first()
        return None if latest is None else int(latest["version"])

    def _alter(self, base: TableState) -> None:
        definition = self._definition
        if definition is None:
            return
        has = dict(base.properties)
        wanted = {k: v for k, v in definition.properties.items() if not is_protocol(k)}
        fresh = {k: v for k, v in definition.properties.items() if has.get(k) != v}
        gone = [k for k in has if k not in wanted and k != COLUMN_MAPPING_MODE]
        # Delta removes the clustering of a table when its schema is overwritten.
        forgotten = self._cleared and self._schema() != base.schema
        clustering = () if forgotten else base.cluster_columns
        if definition.cluster_columns != clustering:
            self._spark.sql(cluster_by(self.identifier, definition.cluster_columns))
        if fresh:
            self._spark.sql(set_properties(self.identifier, fresh))
        if gone:
            self._spark.sql(unset_properties(self.identifier, gone))
        if (definition.comment or None) != base.comment:
            self._spark.sql(comment_on(self.identifier, definition.comment))

    def _counts(self, version: int | None) -> dict[str, int]:
        counts = dict.fromkeys(METRICS, 0)
        if version is None:
            return counts
        history = self._spark.sql(f"DESCRIBE HISTORY {self._name}")
        entry = history.where(f"version = {version}").first()
        found = (entry and entry["operationMetrics"]) or {}
        return {**counts, **{k: int(found[k]) for k in METRICS if k in found}}


def _lay_out(
    writer: DataFrameWriter,
    definition: TableDefinition | None,
    base: TableState | None,
    *,
    overwrite: bool,
    changes: bool,
) -> None:
    if definition is None or base is None:
        return
    moved = definition.partition_columns != base.partition_columns
    if overwrite and (changes or moved):
        writer.option("overwriteSchema", True)
    elif changes:
        writer.option("mergeSchema", True)
    if definition.partition_columns:
        writer.partitionBy(*definition.partition_columns)
