import functools

import dagster as dg
import pytest
from pyspark.sql.types import IntegerType, StructType

from delta_pipelines.dagster import (
    DatasetTranslatorData,
    DeltaPipelineTranslator,
    DeltaPipelineTranslatorSettings,
    delta_pipeline_assets,
)
from delta_pipelines.dagster.specs.asset_specs import build_specs
from delta_pipelines.dagster.specs.binding import BINDING_KEY
from delta_pipelines.errors import DeclarationError
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.pipeline import Pipeline
from delta_pipelines_tests.dagster.sample import sales_pipeline


def specs_by_name(pipeline, translator=None):
    specs = build_specs(pipeline, translator)
    return {spec.key.path[-1]: spec for spec in (*specs.assets, *specs.sources)}


def deps_of(spec):
    return {dep.asset_key.to_user_string() for dep in spec.deps}


def test_tables_and_persisted_views_are_assets_and_temporary_views_are_not():
    specs = build_specs(sales_pipeline(), None)
    assert {spec.key.to_user_string() for spec in specs.assets} == {
        "sales/orders_raw",
        "sales/orders",
        "sales/totals",
        "sales/big_totals",
        "sales/converted",
    }
    assert [spec.key.to_user_string() for spec in specs.sources] == ["landing/rates"]


def test_every_dataset_has_a_key_and_nothing_else_has_one():
    binding = build_specs(sales_pipeline(), None).binding
    for key, identifier in binding.identifiers.items():
        assert binding.key_of(identifier) == key
    with pytest.raises(KeyError):
        binding.key_of(Identifier(None, "sales", "elsewhere"))


def test_the_key_has_the_catalog_first_unless_it_is_the_default_one():
    def key(catalog):
        pipeline = Pipeline("p", schema="S", catalog=catalog)
        pipeline.materialized_view("T", "SELECT 1 AS n")
        return build_specs(pipeline, None).assets[0].key.path

    assert key(None) == ["s", "t"]
    assert key("spark_catalog") == ["s", "t"]
    assert key("Main") == ["main", "s", "t"]


def test_dependencies_go_through_temporary_views_and_to_sources():
    specs = specs_by_name(sales_pipeline())
    assert deps_of(specs["orders"]) == {"sales/orders_raw"}
    assert deps_of(specs["totals"]) == {"sales/orders"}
    assert deps_of(specs["big_totals"]) == {"sales/totals"}
    assert deps_of(specs["converted"]) == {"sales/orders", "landing/rates"}
    assert deps_of(specs["orders_raw"]) == set()


def test_a_qualified_table_of_others_in_sql_is_a_dependency():
    pipeline = Pipeline("p", schema="s")
    pipeline.temporary_view("v", "SELECT * FROM other.seen")
    pipeline.materialized_view("t", "SELECT * FROM v JOIN other.direct USING (id)")
    assert deps_of(specs_by_name(pipeline)["t"]) == {"other/seen", "other/direct"}


def test_an_asset_carries_description_group_owners_tags_kinds():
    specs = specs_by_name(sales_pipeline())
    assert specs["totals"].description == (
        "Amount by country\n\n```sql\n"
        "SELECT country, sum(amount) AS amount FROM orders GROUP BY country\n```"
    )
    assert specs["orders"].description.startswith("```python\n@sales.upsert(")
    assert specs["orders_raw"].group_name == "raw"
    assert specs["totals"].group_name == "sales"
    assert specs["rates"].group_name == "landing"
    assert list(specs["orders_raw"].owners) == ["team:sales"]
    assert specs["orders"].tags["layer"] == "silver"
    assert specs["orders"].kinds == {"spark", "deltalake", "table"}
    assert specs["big_totals"].kinds == {"view", "sql"}


def test_an_asset_carries_storage_kind_keys_and_code_reference():
    metadata = specs_by_name(sales_pipeline())["orders"].metadata
    assert metadata["dagster/table_name"] == "sales.orders"
    assert metadata["dagster/storage_kind"] == "deltalake"
    assert metadata["delta_pipelines/kind"] == "upsert"
    assert metadata["delta_pipelines/pipeline"] == "sales"
    assert metadata["delta_pipelines/keys"] == "order_id"
    assert metadata["delta_pipelines/sequence_by"] == "seq"
    assert metadata["delta_pipelines/reset_allowed"] is False
    reference = metadata["dagster/code_references"].code_references[0]
    assert reference.file_path.endswith("sample.py")
    assert reference.line_number > 1
    assert specs_by_name(sales_pipeline())["totals"].metadata[
        "delta_pipelines/partition_columns"
    ] == ("country")


def test_an_asset_carries_its_declared_columns_as_text():
    pipeline = Pipeline("p", schema="s")
    pipeline.materialized_view(
        "t", "SELECT 1 AS id", columns="id INT\n  NOT NULL", constraints={"small": "id < 9"}
    )
    pipeline.materialized_view(
        "u", "SELECT 1 AS id", columns=StructType().add("id", IntegerType(), False)
    )
    specs = specs_by_name(pipeline)
    assert specs["t"].metadata["delta_pipelines/columns"] == "id INT NOT NULL"
    assert specs["t"].metadata["delta_pipelines/constraints"] == "small: id < 9"
    assert specs["u"].metadata["delta_pipelines/columns"] == "id int NOT NULL"
    assert "delta_pipelines/constraints" not in specs["u"].metadata


def test_every_asset_is_skippable_even_when_a_translator_forgets_it():
    class Forgetful(DeltaPipelineTranslator):
        def get_asset_spec(self, data):
            return dg.AssetSpec(key=data.dataset.name)

    for translator in (None, Forgetful()):
        specs = build_specs(sales_pipeline(), translator)
        assert all(spec.skippable for spec in specs.assets)
        assert all(spec.metadata[BINDING_KEY] is specs.binding for spec in specs.assets)


def test_the_code_version_is_the_definition_and_that_of_inlined_views():
    def versions(condition):
        pipeline = Pipeline("p", schema="s")
        pipeline.materialized_view("a", "SELECT 1 AS n")
        pipeline.temporary_view("v", f"SELECT * FROM a WHERE {condition}")
        pipeline.materialized_view("b", "SELECT * FROM v")
        specs = specs_by_name(pipeline)
        return specs["a"].code_version, specs["b"].code_version

    before, after = versions("n > 1"), versions("n > 2")
    assert before[0] == after[0]
    assert before[1] != after[1]
    assert versions("n > 1") == before


def test_the_code_version_shows_the_text_of_a_function_and_is_known_without_one():
    def of(declare):
        pipeline = Pipeline("p", schema="s")
        declare(pipeline.materialized_view("t"))
        return specs_by_name(pipeline)["t"].code_version

    def one(t):
        @t
        def rows(spark):
            return spark.range(1)

    def other(t):
        @t
        def rows(spark):
            return spark.range(2)

    made: dict = {}
    exec("def rows(spark): return spark.range(1)", made)
    assert of(one) == of(one)
    assert len({of(one), of(other), of(lambda t: t(made["rows"]))}) == 3
    assert of(lambda t: t(functools.partial(made["rows"])))


def test_a_translator_may_change_keys_and_dependencies_follow():
    class Prefixed(DeltaPipelineTranslator):
        def get_asset_spec(self, data: DatasetTranslatorData):
            spec = super().get_asset_spec(data)
            return spec.replace_attributes(key=spec.key.with_prefix("dev"))

    specs = specs_by_name(sales_pipeline(), Prefixed())
    assert deps_of(specs["converted"]) == {"dev/sales/orders", "dev/landing/rates"}


def test_settings_disable_parts_of_the_translation():
    settings = DeltaPipelineTranslatorSettings(
        enable_query_in_description=False, enable_code_references=False
    )
    specs = specs_by_name(sales_pipeline(), DeltaPipelineTranslator(settings))
    assert specs["totals"].description == "Amount by country"
    assert "dagster/code_references" not in specs["totals"].metadata


@pytest.mark.filterwarnings("ignore::dagster.PreviewWarning")
def test_views_are_virtual_only_on_demand():
    assert not specs_by_name(sales_pipeline())["big_totals"].is_virtual
    settings = DeltaPipelineTranslatorSettings(enable_virtual_views=True)
    specs = specs_by_name(sales_pipeline(), DeltaPipelineTranslator(settings))
    assert specs["big_totals"].is_virtual
    assert not specs["totals"].is_virtual


def test_a_translator_class_instead_of_an_instance_is_refused():
    with pytest.raises(DeclarationError, match="an instance, not the class"):
        delta_pipeline_assets(pipeline=sales_pipeline(), translator=DeltaPipelineTranslator)


def test_a_refusal_of_dagster_names_the_dataset():
    pipeline = Pipeline("p", schema="s")
    pipeline.materialized_view("t", "SELECT 1 AS n", owners=["unknown"])
    with pytest.raises(
        DeclarationError, match=r"t: Dagster rejects its asset: .*unknown"
    ) as caught:
        build_specs(pipeline, None)
    assert caught.value.problems[0].location.file.endswith("test_asset_specs.py")


def test_two_datasets_with_one_key_are_refused():
    class Same(DeltaPipelineTranslator):
        def get_asset_spec(self, data):
            return super().get_asset_spec(data).replace_attributes(key="same")

    pipeline = Pipeline("p", schema="s")
    pipeline.materialized_view("t", "SELECT 1 AS n")
    pipeline.materialized_view("u", "SELECT 1 AS n")
    with pytest.raises(DeclarationError, match=r"the asset key same is also the key of s\.t"):
        build_specs(pipeline, Same())


def test_a_graph_error_stops_the_code_location():
    pipeline = Pipeline("p", schema="s")
    pipeline.materialized_view("t", "SELECT * FROM nowhere")
    with pytest.raises(DeclarationError, match="nowhere"):
        delta_pipeline_assets(pipeline=pipeline)


def test_backticks_in_a_query_do_not_end_its_code_block():
    pipeline = Pipeline("p", schema="s")
    pipeline.materialized_view("t", "SELECT '```' AS fence")
    assert specs_by_name(pipeline)["t"].description.splitlines()[0] == "````sql"
