"""A hostile name in any position of a declaration is kept to the letter or refused, without SQL."""

import re

import pytest
from click.testing import CliRunner
from dagster import serialize_value

import delta_pipelines as dp
from delta_pipelines.cli.commands import cli
from delta_pipelines.dagster import DeltaPipelineResource, build_pipeline_definitions
from delta_pipelines.dagster.run_config import op_config_schema
from delta_pipelines.planning.refresh_request import RefreshRequest
from delta_pipelines.planning.refresh_set import refresh_set
from delta_pipelines_tests.support.hostile_names import IMPOSSIBLE, NAMES, printable

LEGAL = re.compile(r"[A-Za-z0-9_]{1,128}")
COLUMNS = {"key": "keys", "partition": "partition_cols", "cluster": "cluster_by"}
TEXTS = {
    "comment": lambda n: {"comment": n},
    "property value": lambda n: {"table_properties": {"k": n}},
    "property key": lambda n: {"table_properties": {n: "v"}},
    "owner": lambda n: {"owners": [n]},
    "tag": lambda n: {"tags": {n: "v"}},
    "tag value": lambda n: {"tags": {"k": n}},
    "group": lambda n: {"group": n},
    "setting": lambda n: {"spark_conf": {n: "v"}},
    "setting value": lambda n: {"spark_conf": {"k": n}},
    "partition": lambda n: {"partition_cols": [n]},
    "cluster": lambda n: {"cluster_by": [n]},
}
SQL = "SELECT 1 AS id"


def pipeline(name="p", schema="s", **options):
    return dp.Pipeline(name, schema=schema, **options)


def named(position, name):
    """A pipeline with the name in one position, and what the graph says the name became."""
    match position:
        case "pipeline":
            p = pipeline(name)
        case "schema":
            p = pipeline(schema=name)
        case "catalog":
            p = pipeline(catalog=name)
        case "storage":
            p = pipeline(storage=name)
        case _:
            p = pipeline()
    match position:
        case "table":
            p.materialized_view(name, SQL)
        case "own schema":
            p.materialized_view("t", SQL, schema=name)
        case "view":
            p.view(name, SQL)
        case "temporary view":
            p.temporary_view(name, SQL)
        case "source":
            p.source(name)
        case "upsert":
            p.upsert(name, SQL, keys=["id"])
        case "key":
            p.upsert("t", SQL, keys=[name])
        case "sequence_by":
            p.upsert("t", SQL, keys=["id"], sequence_by=name)
        case "flow" | "target":
            p.create_streaming_table("t")
            flow = name if position == "flow" else "f"
            target = name if position == "target" else "t"
            p.append_flow(target=target, name=flow)(lambda spark: spark)
        case "input":
            p.materialized_view(inputs={"x": name})(_reads_x)
        case _:
            p.materialized_view("t", SQL, **TEXTS.get(position, lambda _: {})(name))
    return p


def _reads_x(x):
    return x


OBJECTS = ("table", "own schema", "view", "temporary view", "source", "upsert", "flow")
SCOPES = ("pipeline", "schema", "catalog", "storage")
POINTERS = ("target", "input", "key", "sequence_by")


def test_every_hostile_name_in_every_position_is_kept_or_refused(record_property):
    cases, refused, wrong = 0, 0, []
    for position in (*OBJECTS, *SCOPES, *POINTERS, *TEXTS):
        for name in NAMES:
            cases += 1
            try:
                graph = named(position, name).graph()
                specs = build_pipeline_definitions(
                    named(position, name), spark=DeltaPipelineResource(warehouse="w")
                )
            except dp.PipelineError as error:
                refused += 1
                str(error).encode()
                if "\0" in str(error):
                    wrong.append((position, printable(name), "NUL in its refusal"))
                continue
            except Exception as error:  # noqa: BLE001 - any other error is a finding
                wrong.append((position, printable(name), f"{type(error).__name__}: {error}"))
                continue
            if name in IMPOSSIBLE:
                wrong.append((position, printable(name), "accepted"))
            if position in OBJECTS and not all(map(LEGAL.fullmatch, re.split(r"\.", name))):
                wrong.append((position, printable(name), "accepted"))
            if position in TEXTS and not _kept(position, name, graph):
                wrong.append((position, printable(name), "not kept to the letter"))
            serialize_value([spec.key for spec in specs.resolve_all_asset_specs()])
    assert wrong == []
    record_property("proved", f"names declared: {cases} cases, {refused} refused, 0 differences")
    assert cases >= 1000


def _kept(position, name, graph):
    (table,) = graph.tables
    given = TEXTS[position](name)
    return all(
        getattr(table.declaration, option) in (value, tuple(value) if value else value)
        for option, value in given.items()
    )


@pytest.mark.parametrize("what", ["refresh", "full_refresh", "reset_checkpoints"])
def test_a_hostile_name_in_a_selection_is_unknown(what):
    graph = named("table", "t").graph()
    for name in NAMES:
        with pytest.raises(dp.UnknownDatasetError) as caught:
            refresh_set(
                graph,
                RefreshRequest.of(
                    **{
                        "refresh": None,
                        "full_refresh": (),
                        "full_refresh_all": False,
                        "reset_checkpoints": (),
                        what: [name],
                    }
                ),
            )
        str(caught.value).encode()


def test_a_hostile_name_in_a_run_config_is_refused_by_the_configs_enum():
    from dagster import Shape
    from dagster._config import validate_config

    schema = Shape(op_config_schema("hostile", named("table", "t").graph()))
    assert validate_config(
        schema.config_type if hasattr(schema, "config_type") else schema, {"full_refresh": ["t"]}
    ).success
    for name in NAMES:
        assert not validate_config(schema, {"full_refresh": [name]}).success


def test_a_hostile_target_on_the_command_line_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in NAMES:
        for target in (name, f"{name}:p", f"os:{name}", f"{name}.py:p"):
            ended = CliRunner().invoke(cli, ["validate", target])
            assert ended.exit_code == 2, (printable(target), ended.exception)
            assert "Traceback" not in ended.output
