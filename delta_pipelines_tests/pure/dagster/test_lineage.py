"""Column lineage in Dagster's terms."""

import dagster as dg

from delta_pipelines.dagster.keys import asset_key
from delta_pipelines.dagster.lineage import COLUMN_LINEAGE, standing_lineage, table_lineage
from delta_pipelines.identifiers import Identifier
from delta_pipelines.planning.lineage import ColumnOrigin

FLIGHTS = Identifier(None, "s", "flights")


def test_every_column_of_a_table_has_its_upstream_columns() -> None:
    lineage = {"Total": (ColumnOrigin(FLIGHTS, "delay"), ColumnOrigin(FLIGHTS, "n")), "n": ()}
    shown = table_lineage(lineage, ["total", "n", "kept"], asset_key)
    key = dg.AssetKey(["s", "flights"])
    assert shown == dg.TableColumnLineage(
        {
            "total": [dg.TableColumnDep(key, "delay"), dg.TableColumnDep(key, "n")],
            "n": [],
            "kept": [],
        }
    )


def test_what_stands_is_read_from_the_newest_materialization() -> None:
    key, shown = dg.AssetKey(["s", "t"]), table_lineage({"a": ()}, ["a"], asset_key)
    with dg.DagsterInstance.ephemeral() as instance:
        assert standing_lineage(instance, key) is None
        instance.report_runless_asset_event(
            dg.AssetMaterialization(key, metadata={COLUMN_LINEAGE: shown})
        )
        assert standing_lineage(instance, key) == shown
        instance.report_runless_asset_event(dg.AssetMaterialization(key))
        assert standing_lineage(instance, key) is None
