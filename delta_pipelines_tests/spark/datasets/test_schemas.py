"""A schema's folder is there before Hive creates the schema."""

from pathlib import Path
from urllib.parse import unquote

from pyspark.sql import SparkSession

from delta_pipelines.datasets import schemas
from delta_pipelines.delta.catalog.registration import make_schema_folder
from delta_pipelines.model.identifiers import Identifier


def test_the_folder_of_a_new_schema_is_made_where_the_catalog_puts_it(
    spark: SparkSession, monkeypatch
) -> None:
    """Hive deletes a folder that it made when another process was faster, tables included."""
    made: list[str] = []

    def make(session: SparkSession, schema: str) -> None:
        assert not session.catalog.databaseExists(schema)
        make_schema_folder(session, schema)
        made.append(schema)

    monkeypatch.setattr(schemas, "make_schema_folder", make)
    name = "a_schema_with_a_folder"
    try:
        for _ in range(2):
            schemas.ensure_schema(spark, Identifier(None, name, "t"))
        assert made == [name]
        location = Path(unquote(spark.catalog.getDatabase(name).locationUri.removeprefix("file:")))
        assert location.is_dir()
        assert location.name == f"{name}.db"
        again = f"{name}_too"
        make_schema_folder(spark, again)
        assert (location.parent / f"{again}.db").is_dir()
    finally:
        spark.sql(f"DROP SCHEMA IF EXISTS {name}")
