"""Assets of others that follow a pipeline's run when its rows are others, and only then."""

import re
from pathlib import Path

import dagster as dg
import pytest

from delta_pipelines.dagster import build_pipeline_definitions
from delta_pipelines.pipeline import Pipeline

PAGE = Path(__file__).parents[2] / "docs" / "dagster.md"


@pytest.fixture
def on_other_rows():
    """The condition that the page on Dagster gives."""
    (block,) = re.findall(r"```python\n(on_other_rows = .*?)\n\n", PAGE.read_text(), re.DOTALL)
    names = {"dg": dg}
    exec(block, names)
    return names["on_other_rows"]


class Location:
    """A pipeline of one table, and an asset behind it; `requested` is what a tick asks for."""

    def __init__(self, schema, lake, instance, condition):
        self.instance, self._cursor = instance, None
        self.rows = rows = [1]
        pipeline = Pipeline("followed", schema=schema)

        @pipeline.materialized_view
        def orders(spark):
            return spark.range(len(rows))

        @dg.asset(deps=[dg.AssetKey([schema, "orders"])], automation_condition=condition)
        def invoices() -> None: ...

        own = build_pipeline_definitions(pipeline, spark=lake)
        self.definitions = dg.Definitions.merge(own, dg.Definitions(assets=[invoices]))
        self.orders, self.invoices = dg.AssetKey([schema, "orders"]), dg.AssetKey("invoices")

    def run(self, *keys):
        job = self.definitions.resolve_implicit_global_asset_job_def()
        result = job.execute_in_process(instance=self.instance, asset_selection=list(keys))
        return [
            e.step_materialization_data.materialization.metadata
            for e in result.all_events
            if e.is_step_materialization and e.asset_key == self.orders
        ]

    @property
    def requested(self):
        evaluation = dg.evaluate_automation_conditions(
            self.definitions, self.instance, cursor=self._cursor
        )
        self._cursor = evaluation.cursor
        return evaluation.total_requested


def test_the_condition_of_the_docs_follows_other_rows_and_no_unchanged_refresh(
    schema, lake, instance, on_other_rows
):
    location = Location(schema, lake, instance, on_other_rows)
    orders, invoices = location.orders, location.invoices
    location.run(orders, invoices)
    assert location.requested == 0
    (metadata,) = location.run(orders)
    assert metadata["delta_pipelines/refresh"].value == "unchanged"
    assert location.requested == 0

    location.rows.append(2)
    (metadata,) = location.run(orders)
    assert metadata["delta_pipelines/refresh"].value == "refresh"
    assert location.requested == 1
    location.run(invoices)
    assert location.requested == 0

    location.rows.append(3)
    location.run(orders, invoices)
    assert location.requested == 0


def test_eager_follows_every_refresh_so_the_docs_give_another(schema, lake, instance):
    location = Location(schema, lake, instance, dg.AutomationCondition.eager())
    location.run(location.orders, location.invoices)
    assert location.requested == 0
    location.run(location.orders)
    assert location.requested == 1
