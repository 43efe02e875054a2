"""Column lineage in Dagster's terms."""

import dagster as dg

from delta_pipelines.dagster.run.metadata import table_lineage
from delta_pipelines.dagster.specs.asset_keys import asset_key
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.planning.query.column_lineage import ColumnOrigin

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
