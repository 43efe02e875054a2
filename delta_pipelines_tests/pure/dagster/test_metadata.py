import dagster as dg
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from delta_pipelines.dagster.run.metadata import (
    column_schema,
    data_version,
    materialization_metadata,
    refresh_word,
)
from delta_pipelines.dagster.run.report import failure, results_table
from delta_pipelines.errors import DatasetError
from delta_pipelines.merge import MergeResult
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.merge_result import MaterializeSourceReason
from delta_pipelines.model.results import DatasetResult, TableFacts
from delta_pipelines.model.table_state import TableVersion

SCHEMA = StructType(
    [
        StructField("id", IntegerType(), False, {"comment": "The key"}),
        StructField("name", StringType()),
    ]
)
FACTS = TableFacts(
    SCHEMA, "file:/lake/t", "abc", TableVersion("abc", 3, "c3"), files=2, size_bytes=900
)


def result(name="t", status="completed", action="refresh", **fields):
    fields.setdefault("reason", "its input changed.")
    fields.setdefault("kind", "upsert")
    return DatasetResult(name, status, action, identifier=Identifier(None, "s", name), **fields)


def test_a_merge_reports_its_rows_as_numbers():
    metrics = {
        "numTargetRowsInserted": 5,
        "numTargetRowsUpdated": 0,
        "numTargetRowsDeleted": 2,
        "numOutputRows": 99,
    }
    metadata = materialization_metadata(
        result(metrics=metrics, version=4, seconds=1.23456, facts=FACTS), ("ID",)
    )
    assert metadata["delta_pipelines/rows_inserted"] == 5
    assert metadata["delta_pipelines/rows_updated"] == 0
    assert metadata["delta_pipelines/rows_deleted"] == 2
    assert metadata["delta_pipelines/version"] == 4
    assert metadata["delta_pipelines/seconds"] == 1.235
    assert metadata["delta_pipelines/files"] == 2
    assert metadata["delta_pipelines/bytes"] == 900
    assert metadata["dagster/uri"] == "file:/lake/t"
    assert metadata["delta_pipelines/refresh"] == "refresh"
    assert metadata["delta_pipelines/reason"] == "its input changed."
    assert "dagster/row_count" not in metadata


def test_a_batch_write_reports_its_row_count():
    metadata = materialization_metadata(
        result(kind="materialized_view", rows=7, metrics={"numOutputRows": 7})
    )
    assert metadata["dagster/row_count"] == 7
    assert metadata["delta_pipelines/rows_written"] == 7


def test_all_metadata_can_be_stored_by_dagster():
    full = result(
        facts=FACTS,
        version=1,
        rows=2,
        changes=("column + name STRING",),
        inputs={"s.raw": 4, "files": None},
        notes=("a note",),
        attempts=2,
    )
    materialization = dg.AssetMaterialization("t", metadata=materialization_metadata(full))
    assert materialization.metadata["delta_pipelines/changes"].value == "- column + name STRING"
    assert "| `s.raw` | 4 |" in materialization.metadata["delta_pipelines/inputs"].value
    assert materialization.metadata["delta_pipelines/attempts"].value == 2


def test_an_unchanged_table_reports_zero_rows_and_the_same_data_version():
    before = result(facts=FACTS, version=3)
    after = result(status="unchanged", action="none", facts=FACTS, version=5)
    assert data_version(before) == data_version(after) == dg.DataVersion("abc:3:c3")
    metadata = materialization_metadata(after)
    assert metadata["delta_pipelines/refresh"] == "unchanged"
    assert metadata["delta_pipelines/rows_inserted"] == 0


def test_a_view_has_no_data_version_of_its_own():
    assert data_version(result(kind="view", facts=TableFacts(SCHEMA))) is None


def test_a_full_refresh_that_was_not_allowed_is_in_the_metadata():
    blocked = result(reset_blocked=True)
    assert refresh_word(blocked) == "refresh (full refresh not allowed)"
    assert refresh_word(result(action="full_refresh")) == "full refresh"


def test_columns_have_types_comments_and_constraints():
    columns = column_schema(SCHEMA, ("ID",)).columns
    assert [(c.name, c.type, c.description) for c in columns] == [
        ("id", "int", "The key"),
        ("name", "string", None),
    ]
    assert columns[0].constraints == dg.TableColumnConstraints(
        nullable=False, unique=True, other=["key"]
    )
    assert columns[1].constraints.nullable
    two = column_schema(SCHEMA, ("id", "name"))
    assert two.constraints.other == ["unique (id, name)"]
    assert not any(column.constraints.unique for column in two.columns)


def test_a_failure_names_every_failed_and_skipped_dataset_once():
    results = [
        result("a", rows=1234, version=2),
        result("b", "failed", "none", error=DatasetError("broke | badly\nhere.", dataset="b")),
        result("c", "skipped", "none", reason="its input b failed."),
    ]
    failed = failure("p", results)
    assert failed.description.splitlines() == [
        "3 datasets of pipeline p: 1 completed, 1 failed, 1 skipped.",
        "- b failed: broke | badly",
        "here.",
        "- c skipped: its input b failed.",
    ]
    table = failed.metadata["datasets"].value.splitlines()
    assert (
        table[2] == "| `a` | upsert | completed | refresh | its input changed. | 2 | 1,234 | 0.0 |"
    )
    assert table[3] == "| `b` | upsert | failed |  | broke \\| badly here. |  |  | 0.0 |"
    assert failed.allow_retries is False
    assert len(results_table(results).splitlines()) == 5


def test_only_transient_failures_may_be_retried():
    def retried(*transient):
        return failure(
            "p",
            [
                result(str(i), "failed", "none", error=DatasetError("x", transient=value))
                for i, value in enumerate(transient)
            ],
        ).allow_retries

    assert retried(True)
    assert retried(True, True)
    assert not retried(True, False)
    assert failure("p", [result(), result("u", "unchanged", "none")]) is None


def test_how_an_upsert_was_merged_is_in_the_metadata():
    merge = MergeResult(
        version=4,
        metrics={
            "numTargetFilesBeforeSkipping": 40,
            "numTargetFilesAfterSkipping": 3,
            "numTargetRowsCopied": 12,
            "scanTimeMs": 1250,
        },
        executor="classic",
        executor_reason="matches are found by one scan",
        materialize_source_reason=MaterializeSourceReason.NON_DETERMINISTIC_SOURCE_OPERATORS,
        attempts=2,
    )
    metadata = materialization_metadata(result(merge=merge, version=4, facts=FACTS))
    assert metadata["delta_pipelines/merge_executor"] == "classic"
    assert metadata["delta_pipelines/merge_executor_reason"] == "matches are found by one scan"
    assert metadata["delta_pipelines/merge_attempts"] == 2
    assert metadata["delta_pipelines/merge_files_pruned"] == 37
    assert metadata["delta_pipelines/merge_rows_copied"] == 12
    assert metadata["delta_pipelines/merge_scan_seconds"] == 1.25
    assert "delta_pipelines/merge_files_added" not in metadata
    reason = metadata["delta_pipelines/merge_materialize_source_reason"]
    assert reason == merge.materialize_source_reason.value


def test_the_columns_have_their_rules_and_the_table_its_constraints():
    schema = StructType(
        [
            StructField("id", IntegerType(), False),
            StructField("n", IntegerType(), True, {"CURRENT_DEFAULT": "7"}),
            StructField("g", IntegerType(), True, {"delta.generationExpression": "id + 1"}),
        ]
    )
    shown = column_schema(schema, ("id",), {"small": "n < 9", "order": "id < n"})
    small, order = "CHECK small: n < 9", "CHECK order: id < n"
    assert [column.constraints.other for column in shown.columns] == [
        ["key", order],
        ["defaulted to 7", small, order],
        ["generated as id + 1"],
    ]
    assert shown.constraints.other == [small, order]
    assert column_schema(schema, ("id",)).constraints == dg.TableConstraints(other=[])
