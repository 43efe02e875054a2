"""A pipeline that meets credentials in every position, and fails with them in its mouth.

Every credential is made of `marker` and the name of its position, so that what leaks is known.
"""

import os

from delta_pipelines.pipeline import Pipeline

SETTINGS = {
    "spark.hadoop.fs.s3a.secret.key": "s3a",
    "spark.hadoop.javax.jdo.option.ConnectionPassword": "metastore",
    "spark.sql.catalog.elsewhere.password": "catalog",
    "spark.acme.api.token": "token",
}
"""Settings of the session -> position."""
WELL = ("rows", "merged", "shown", "seen")
FAILED = (
    "raises_setting",
    "raises_conf",
    "raises_environment",
    "raises_address",
    "raises_chain",
    "reads_jdbc",
    "reads_path",
    "breaks_at_run_time",
    "bad_sql",
)


def settings(marker):
    return {key: f"{marker}-{position}" for key, position in SETTINGS.items()}


def leaky_pipeline(marker, schema="leaky"):
    """Four datasets that go well, others that fail; `marker` begins every credential."""
    leaky = Pipeline("leaky", schema=schema)
    own = {"spark.acme.password": f"{marker}-conf"}
    address = f"jdbc:postgresql://ann:{marker}-user@db:5432/x?password={marker}-query&ssl=true"

    @leaky.materialized_view(spark_conf=own)
    def rows(spark):
        return spark.range(3).selectExpr("id", "'a' AS v")

    @leaky.upsert(keys=["id"], spark_conf=own)
    def merged(rows):
        return rows

    leaky.materialized_view("shown", "SELECT id FROM merged", spark_conf=own)
    leaky.view("seen", "SELECT id FROM shown")

    @leaky.materialized_view
    def raises_setting(spark):
        raise ValueError(f"cannot log in: {spark.conf.get('spark.hadoop.fs.s3a.secret.key')}")

    @leaky.materialized_view(spark_conf=own)
    def raises_conf(spark):
        raise ValueError(f"cannot log in: {spark.conf.get('spark.acme.password')}")

    @leaky.materialized_view
    def raises_environment(spark):
        raise ValueError(f"cannot log in: {os.environ['LEAKY_PASSWORD']}")

    @leaky.materialized_view
    def raises_address(spark):
        raise ConnectionError(f"no answer from {address}")

    @leaky.materialized_view
    def raises_chain(spark):
        try:
            raise ConnectionError(f"no answer from {address}")
        except ConnectionError as error:
            raise RuntimeError("the upload failed") from error

    @leaky.materialized_view
    def reads_jdbc(spark):
        reader = spark.read.format("jdbc").option("url", address).option("dbtable", "t")
        return reader.option("user", "ann").option("password", f"{marker}-option").load()

    @leaky.materialized_view
    def reads_path(spark):
        return spark.read.parquet(f"file://key:{marker}-path@bucket/x")

    @leaky.materialized_view
    def breaks_at_run_time(rows):
        return rows.selectExpr("id", f"CAST(raise_error('no answer from {address}') AS INT) AS x")

    leaky.materialized_view("bad_sql", f"SELECT nope FROM parquet.`s3a://key:{marker}-sql@b/x`")
    leaky.materialized_view("after", "SELECT * FROM breaks_at_run_time")
    return leaky


leaky = leaky_pipeline(os.environ.get("LEAKY_MARKER", "marker"))


def main():
    """The command line over a session with the credentials among its settings."""
    import sys

    from delta_pipelines.cli.commands import main as command
    from delta_pipelines.session import get_session
    from delta_pipelines_tests.conftest import PROCESS_SETTINGS

    warehouse = sys.argv[sys.argv.index("--warehouse") + 1]
    get_session(warehouse, config={**PROCESS_SETTINGS, **settings(os.environ["LEAKY_MARKER"])})
    command()


if __name__ == "__main__":
    main()
