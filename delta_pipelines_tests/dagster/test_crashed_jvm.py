"""A JVM that the system kills takes the session along, and not the night."""

from delta_pipelines_tests.support.spark_programs import running_programs

RETRIED = """
import signal
import dagster as dg
import delta_pipelines as dp
from delta_pipelines.dagster import DeltaPipelineResource, build_pipeline_definitions
from delta_pipelines.delta.jvm.driver_jvm import jvm_pid
from delta_pipelines.model.run_steps import Step, observing

shop = dp.Pipeline("shop", schema="shop")
shop.materialized_view("a", "SELECT 1 AS n")
shop.materialized_view("b", "SELECT * FROM a")
shop.view("v", "SELECT * FROM b")
killed = []

def kill(step, dataset):
    if step is Step.WRITE and dataset.replace("`", "") == "shop.b" and not killed:
        killed.append(jvm_pid())
        os.kill(jvm_pid(), signal.SIGKILL)

lake = DeltaPipelineResource(warehouse="tables", spark_config=settings)
location = build_pipeline_definitions(
    shop, spark=lake, retry_policy=dg.RetryPolicy(max_retries=1)
)
with observing(kill), dg.DagsterInstance.ephemeral() as instance:
    result = dg.materialize(
        list(location.assets), resources=location.resources, instance=instance
    )
    made = [event.asset_key.path[-1] for event in result.get_asset_materialization_events()]
    messages = [record.message for record in instance.all_logs(result.run_id)]
say(result.success, made, [text for text in messages if text.startswith("shop.b: failed")])

lake.spark_session.table("shop.v").count()
lake.spark_session.stop()
spark = lake.spark_session
say(spark.table("shop.v").count(), spark.conf.get("spark.driver.memory"))
"""


def test_a_retry_makes_what_is_left_in_a_new_jvm(tmp_path, process_settings):
    with running_programs(tmp_path, process_settings) as start:
        program = start(RETRIED)
        success, made, (message,) = program.says()
        assert program.says() == [1, "3g"]
    assert (success, made) == (True, ["a", "b", "v"])
    assert "Spark's JVM ended while it worked: killed by signal 9 (out of memory, most" in message
