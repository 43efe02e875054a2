"""Which partition values Delta gives back, compared with Delta itself."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from delta_pipelines.delta.jvm.spark_errors import explain
from delta_pipelines.delta.write.partition_values import checked_partitions, comes_back

KEPT, LOST = True, False
VALUES = {
    "string": {
        "''": LOST,
        "'__HIVE_DEFAULT_PARTITION__'": LOST,
        "CAST(X'FF41' AS STRING)": LOST,
        "' '": KEPT,
        "' a/b%2F=\\\\ '": KEPT,
        "'__hive_default_partition__'": KEPT,
        "'null'": KEPT,
        "char(10)": KEPT,
        "'e\u0301\U0001f600'": KEPT,
    },
    "binary": {"X''": LOST, "X'FF'": LOST, "X'C3A9'": KEPT, "X'0A'": KEPT},
    "timestamp": {
        "'2026-10-25 00:00:00Z'": KEPT,
        "'2026-10-25 01:00:00Z'": LOST,
        "'2026-10-25 01:30:00.000001Z'": LOST,
        "'2026-06-25 01:00:00.123456Z'": KEPT,
        "'1582-10-10 00:00:00Z'": KEPT,
        "'0001-01-01 00:00:00Z'": KEPT,
        "'0000-12-31 23:00:00Z'": LOST,
        "'-0010-01-01 00:00:00Z'": LOST,
        "'+10000-01-01 00:00:00Z'": KEPT,
    },
    "timestamp_ntz": {"'2026-10-25 02:30:00'": KEPT, "'-0010-01-01 00:00:00'": KEPT},
    "date": {"'0001-01-01'": KEPT, "'-0010-01-01'": KEPT, "'+10000-01-01'": KEPT},
    "double": {"'NaN'": KEPT, "-0.0D": KEPT, "4.9E-324D": KEPT, "'Infinity'": KEPT, "0.1D": KEPT},
    "float": {"'NaN'": KEPT, "'3.4028235E38'": KEPT, "0.1": KEPT},
    "decimal(38,18)": {"'0.000000000000000001'": KEPT, "1.5": KEPT},
}


@pytest.fixture
def berlin(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    return session


@pytest.mark.parametrize("kind", VALUES)
def test_the_predicted_partition_value_is_the_one_of_delta(berlin, tmp_path: Path, kind):
    known = list(VALUES[kind].items())
    rows = berlin.sql(
        " UNION ALL ".join(
            f"SELECT {n} AS n, CAST({value} AS {kind}) AS p" for n, (value, _) in enumerate(known)
        )
    ).coalesce(1)
    path = str(tmp_path / "t")
    rows.write.format("delta").partitionBy("p").save(path)
    back = berlin.read.format("delta").load(path).withColumnRenamed("p", "back")
    seen = rows.join(back, "n").select(
        "n",
        F.expr("p <=> back").alias("came_back"),
        comes_back(F.col("p"), rows.schema["p"].dataType).alias("said"),
    )
    found = {known[row.n][0]: (row.came_back, row.said) for row in seen.collect()}
    assert found == {value: (kept, kept) for value, kept in known}


def test_an_error_names_the_column_and_the_value(berlin):
    rows = berlin.sql(
        "SELECT '' AS `a.b`, X'FF' AS b, TIMESTAMP'2026-10-25 01:00:00Z' AS t, CAST(NULL AS STRING)"
        " AS nothing, 1 AS n"
    )
    messages = {}
    for column in ("A.B", "b", "t"):
        with pytest.raises(PySparkException) as caught:
            checked_partitions(rows, [column, "nothing", "n", "absent"]).collect()
        messages[column] = str(explain(caught.value, "s.t"))
    assert messages["A.B"].startswith(
        "s.t: Delta stores the values of partition column a.b as text"
    )
    assert "and '' would come back as NULL; nothing was written" in messages["A.B"]
    assert "0xFF" in messages["b"]
    assert "2026-10-25 02:00:00 +01:00" in messages["t"]
    assert "UTC" in messages["t"]
    kept = checked_partitions(rows, ["nothing", "n"])
    assert kept.schema == rows.schema
    assert kept.collect() == rows.collect()
