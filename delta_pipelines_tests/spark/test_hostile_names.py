"""Hostile names through a real run: declared, planned, written, read again, shown by Dagster."""

import pytest
from pyspark.sql.types import ArrayType, IntegerType, StructField, StructType

from delta_pipelines.dagster.run.metadata import materialization_metadata
from delta_pipelines.errors import DatasetError, DeclarationError, PipelineError
from delta_pipelines_tests.support.hostile_names import NAMES, STORABLE
from delta_pipelines_tests.support.pipelines import run, scratch, seen, tables_of

CHUNK = 4


def _distinct(names):
    """Names that Spark can tell apart: letter case does not count."""
    return list({name.lower(): name for name in names}.values())


COLUMNS = [n for n in _distinct(STORABLE) if not n.startswith("__dp_")]
MERGEABLE = [n for n in COLUMNS if "`" not in n and "${" not in n]


@pytest.fixture
def canary(spark, warehouse, schema):
    """A table and a file beside the warehouse that must survive whatever a name does."""
    spark.sql("CREATE TABLE IF NOT EXISTS default.canary USING delta AS SELECT 1 AS alive")
    spark.sql(f"CREATE TABLE {schema}.canary USING delta AS SELECT 1 AS alive")
    outside = warehouse.parent / "outside"
    outside.write_text("alive")
    before = sorted(p.name for p in warehouse.parent.iterdir())
    yield
    assert spark.table("default.canary").collect()[0][0] == 1
    assert spark.table(f"{schema}.canary").collect()[0][0] == 1
    assert outside.read_text() == "alive"
    assert sorted(p.name for p in warehouse.parent.iterdir()) == before


def _fields(names):
    return [StructField(n, IntegerType()) for n in names]


def _frame(spark, names, more=()):
    columns = StructType([StructField("id", IntegerType()), *_fields(names), *more])
    return columns, (1, *range(len(names)))


def _chunks(names):
    return [names[i : i + CHUNK] for i in range(0, len(names), CHUNK)]


def test_hostile_names_of_columns_keys_views_properties_and_comments_round_trip(
    spark, schema, canary, record_property
):
    pipeline = scratch(schema)
    nested = StructType(_fields(COLUMNS))
    wide, values = _frame(spark, COLUMNS)
    deep = StructType([*wide.fields, StructField("s", nested), StructField("a", ArrayType(nested))])
    inner = tuple(range(len(COLUMNS)))
    properties = {f"p.{n}": n for n in STORABLE if "\n" not in n}
    properties |= {n: f"v {n}" for n in _property_keys()}
    comment = " / ".join(STORABLE)

    @pipeline.materialized_view(comment=comment, table_properties=properties)
    def wide_table(spark):
        return spark.createDataFrame([(*values, inner, [inner])], deep)

    merge_columns, merge_values = _frame(spark, MERGEABLE)

    @pipeline.upsert(keys=["id", *MERGEABLE], sequence_by=f"`{MERGEABLE[0]}`", deletes_when="id<0")
    def merged(spark):
        return spark.createDataFrame([merge_values], merge_columns)

    view_columns = [n for n in COLUMNS if n not in UNVIEWABLE]
    selected = ", ".join(map(_quoted, view_columns))
    pipeline.materialized_view("by_sql", f"SELECT {selected} FROM wide_table")
    view_properties = {k: v for k, v in properties.items() if len(k) <= 256}
    pipeline.view(
        "seen",
        f"SELECT {selected} FROM wide_table",
        comment=comment,
        table_properties=view_properties,
    )
    differences = []
    for _ in range(2):
        plan = pipeline.plan(spark)
        assert [str(problem) for problem in plan.errors] == []
        assert "wide_table" in str(plan)
        assert plan.datasets["wide_table"].schema.names == deep.names
        result = run(pipeline, spark)
        assert result.success, {n: r.reason for n, r in result.results.items()}
        found = seen(spark, f"{schema}.wide_table")
        assert found.schema.names == deep.names
        assert found.schema["s"].dataType.names == COLUMNS
        assert found.schema["a"].dataType.elementType.names == COLUMNS
        differences += [k for k, v in properties.items() if found.properties.get(k) != v]
        assert found.comment == comment
        assert found.rows == [(*values, inner, [inner])] or _plain(found.rows[0]) == [
            *values,
            list(inner),
            [list(inner)],
        ]
        assert seen(spark, f"{schema}.merged").rows == [merge_values]
        assert spark.table(f"{schema}.by_sql").schema.names == view_columns
        assert spark.table(f"{schema}.seen").schema.names == view_columns
        shown = materialization_metadata(result.results["wide_table"])["dagster/column_schema"]
        assert [c.name for c in shown.columns] == deep.names
    assert differences == []
    cases = 5 * len(COLUMNS) + len(MERGEABLE) + 2 * len(properties) + len(STORABLE)
    record_property("proved", f"names run on Delta: {cases} cases twice, 0 differences")


def _property_keys():
    return [n for n in STORABLE if n.strip() and len(n) <= 200 and "\n" not in n]


def _plain(row):
    def plain(value):
        if isinstance(value, tuple | list):
            return [plain(v) for v in value]
        return value

    return plain(row)


UNVIEWABLE = ("${spark.app.name}",)
"""Spark replaces it in the SQL text that a user writes, wherever it stands."""


@pytest.mark.soak
def test_hostile_names_of_partition_and_cluster_columns_round_trip_or_are_refused(
    spark, schema, canary, record_property
):
    pipeline = scratch(schema)
    tables = {}
    for number, names in enumerate(_chunks([n for n in COLUMNS if len(n.encode()) <= 128])):
        columns, values = _frame(spark, names)
        for what in ("partition_cols", "cluster_by"):
            name = f"{what}_{number}"
            tables[name] = (what, names, columns, values)
            pipeline.materialized_view(name, **{what: names})(_giving(columns, values))
    refused = 0
    for _ in range(2):
        results = run(pipeline, spark).results
        for name, (what, names, columns, values) in tables.items():
            result = results[name]
            if result.status == "failed":
                assert isinstance(result.error, PipelineError)
                refused += len(names)
                assert what == "cluster_by", (name, names, result.reason)
                assert not spark.catalog.tableExists(f"{schema}.{name}")
                continue
            found = seen(spark, f"{schema}.{name}")
            assert sorted(found.schema.names) == sorted(columns.names)
            layout = found.partition_columns if what == "partition_cols" else found.cluster_columns
            assert list(layout) == names, what
            (row,) = spark.table(f"{schema}.{name}").select(*map(_quoted, columns.names)).collect()
            assert tuple(row) == values
    record_property(
        "proved", f"names of layout columns: {2 * len(COLUMNS)} cases twice, {refused} refused"
    )


def _quoted(name):
    return f"`{name.replace('`', '``')}`"


def _giving(columns, values):
    def rows(spark):
        return spark.createDataFrame([values], columns)

    return rows


def test_a_hostile_expression_is_an_expression_and_never_a_statement(
    spark, schema, canary, record_property
):
    texts = [name for name in NAMES if "\0" not in name and name.isprintable() and name]
    given = {
        f"{option}_{number}": {option: text}
        for number, text in enumerate(texts)
        for option in ("sequence_by", "deletes_when")
    }

    def declared(names):
        pipeline = scratch(schema)
        for name in names:
            pipeline.upsert(name, "SELECT 1 AS id", keys=["id"], **given[name])
        return pipeline

    with pytest.raises(DeclarationError) as refused:
        declared(given).graph()
    no_expressions = {problem.dataset for problem in refused.value.problems}
    expressions = [name for name in given if name not in no_expressions]
    result = run(declared(expressions), spark)
    ended = {name: result.results[name] for name in expressions}
    kept = {n: one.status for n, one in ended.items() if not isinstance(one.error, DatasetError)}
    # What names no column of the query is a value: a number, a text.
    assert set(kept.values()) <= {"completed"}, kept
    record_property(
        "proved",
        f"hostile expressions: {len(given)} cases, {len(given) - len(expressions)} refused when "
        f"declared, {len(kept)} run, the others name the dataset and leave no table",
    )
    assert set(tables_of(spark, schema)) == {"canary", *(name.lower() for name in kept)}
