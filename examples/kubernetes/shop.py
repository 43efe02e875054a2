"""A pipeline for Dagster on Kubernetes: Spark's driver in the run's pod, its executors in pods."""

import dagster as dg
from pyspark.sql import DataFrame, SparkSession

import delta_pipelines as dp
from delta_pipelines.dagster import DeltaPipelineResource, build_pipeline_definitions

NAMESPACE = "dagster"
DRIVER_MEMORY, DRIVER_POD_MEMORY = "2g", "4Gi"
"""The pod also has the memory of Python, and of Java outside of its heap."""

shop = dp.Pipeline("shop", schema="shop")


@shop.materialized_view
def orders(spark: SparkSession) -> DataFrame:
    """All orders."""
    return spark.range(1_000_000).selectExpr("id", "id % 1000 AS customer")


shop.materialized_view(
    "customers", "SELECT customer, count(*) AS orders FROM orders GROUP BY customer"
)

lake = DeltaPipelineResource(
    warehouse=dg.EnvVar("WAREHOUSE"),
    catalog=dg.EnvVar("CATALOG"),
    spark_config={
        "spark.master": "k8s://https://kubernetes.default.svc",
        "spark.kubernetes.namespace": NAMESPACE,
        "spark.kubernetes.container.image": dg.EnvVar("SHOP_IMAGE"),
        "spark.kubernetes.driver.pod.name": dg.EnvVar("POD_NAME"),
        "spark.driver.host": dg.EnvVar("POD_IP"),
        "spark.driver.bindAddress": "0.0.0.0",
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.executor.instances": "2",
        "spark.executor.memory": "4g",
        "spark.kubernetes.executor.request.cores": "1",
    },
)

defs = build_pipeline_definitions(
    shop,
    spark=lake,
    refresh_cron="0 * * * *",
    # The run launcher reads this tag of a run; jobs and schedules give it to their runs.
    tags={
        "dagster-k8s/config": {
            "container_config": {
                "resources": {
                    "requests": {"cpu": "1", "memory": DRIVER_POD_MEMORY},
                    "limits": {"memory": DRIVER_POD_MEMORY},
                }
            }
        }
    },
)
