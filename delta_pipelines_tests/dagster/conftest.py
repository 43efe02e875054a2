import dagster as dg
import pytest

from delta_pipelines.dagster import DeltaPipelineResource


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


@pytest.fixture
def lake(spark, warehouse, spark_settings):
    """The resource over the suite's own session."""
    return DeltaPipelineResource(
        warehouse=str(warehouse), spark_config=spark_settings, app_name="delta_pipelines_tests"
    )
