"""Inputs with a secret in their names do not change from one run to the next."""

from delta_pipelines_tests.support.pipelines import run_one, run_well, scratch

SECRET = "hunter22"


def last_metadata(spark, table: str) -> str:
    return str(spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").first()["userMetadata"])


def test_a_path_and_a_table_with_a_secret_in_their_names_are_not_a_change(
    spark, schema, tmp_path, monkeypatch
):
    monkeypatch.setenv("ACME_PASSWORD", SECRET)
    landing = tmp_path / SECRET / "landing"
    landing.mkdir(parents=True)
    (landing / "a.json").write_text('{"k": 1}\n')
    spark.sql(f"CREATE TABLE {schema}.of_{SECRET} USING delta AS SELECT 1 AS k")
    pipeline = scratch(schema)
    pipeline.source(f"{schema}.of_{SECRET}")

    @pipeline.materialized_view
    def files(spark):
        return spark.read.schema("k INT").json(str(landing))

    pipeline.materialized_view("rows", "SELECT * FROM x", inputs={"x": f"{schema}.of_{SECRET}"})
    run_well(pipeline, spark)
    again = run_well(pipeline, spark).results
    assert {name: again[name].reason for name in ("files", "rows")} == dict.fromkeys(
        ("files", "rows"), "nothing changed since version 0"
    )
    for name in ("files", "rows"):
        said = last_metadata(spark, f"{schema}.{name}")
        assert SECRET not in said
        assert "***" in said

    with monkeypatch.context() as elsewhere:
        elsewhere.delenv("ACME_PASSWORD")  # as on the machine of a colleague
        assert run_one(pipeline, spark, "files").status == "unchanged"

    (landing / "b.json").write_text('{"k": 2}\n')
    spark.sql(f"INSERT INTO {schema}.of_{SECRET} VALUES (2)")
    changed = run_well(pipeline, spark).results
    assert {changed[name].status for name in ("files", "rows")} == {"completed"}
    assert "***" in changed["files"].reason
    assert SECRET not in changed["files"].reason + changed["rows"].reason
