"""What the README shows works: its commands exist, its code runs, its run config is valid."""

import inspect
import re
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest

import delta_pipelines as dp
import delta_pipelines.dagster
from delta_pipelines.declare.options import OF_QUERIES, checked_declaration
from delta_pipelines.model.declarations import Kind, Query

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
API = (ROOT / "docs" / "api.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


@pytest.fixture(scope="module")
def namespace() -> dict[str, object]:
    """The names that the README's Python blocks define, run one after the other."""
    names: dict[str, object] = {}
    for number, block in enumerate(blocks("python")):
        exec(compile(block, f"README block {number}", "exec"), names)
    return names


def test_commands_of_the_readme_are_targets_of_the_makefile() -> None:
    commands = re.findall(r"^make (\w+)", "\n".join(blocks("shell")), flags=re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text()
    assert commands == ["demo", "test"]
    for command in commands:
        assert re.search(rf"^{command}:", makefile, flags=re.MULTILINE)


def test_the_pipeline_of_the_readme_has_the_datasets_that_it_shows(
    namespace: dict[str, object],
) -> None:
    pipeline = namespace["aviation"]
    assert isinstance(pipeline, dp.Pipeline)
    assert [asset.name for asset in pipeline.graph().assets] == [
        "airports_raw",
        "airports",
        "flights",
        "british_airports",
    ]


def test_the_run_config_of_the_readme_is_valid_and_a_typo_is_not(
    namespace: dict[str, object],
) -> None:
    definitions = namespace["defs"]
    assert isinstance(definitions, dg.Definitions)
    job = definitions.resolve_job_def("aviation_refresh")
    config = {"ops": {"aviation": {"config": {"full_refresh": ["airports_raw"]}}}}
    assert dg.validate_run_config(job, config)
    config["ops"]["aviation"]["config"]["full_refresh"] = ["airports_rew"]
    with pytest.raises(dg.DagsterInvalidConfigError, match="airports_rew"):
        dg.validate_run_config(job, config)


def test_the_page_of_the_api_names_only_existing_names() -> None:
    for name in re.findall(r"`@?p\.(\w+)", API):
        assert hasattr(dp.Pipeline, name), name
    for name in re.findall(r"`dp\.(\w+)\(", API):
        assert name in dp.__all__, name
    for name in re.findall(r"from delta_pipelines\.dagster import (.*)", README)[0].split(", "):
        assert name in delta_pipelines.dagster.__all__


@pytest.mark.parametrize(
    ("called", "function"),
    [
        ("dp.Pipeline", dp.Pipeline.__init__),
        ("p.plan", dp.Pipeline.plan),
        ("p.run", dp.Pipeline.run),
        ("p.maintain", dp.Pipeline.maintain),
        ("dp.merge_into", dp.merge_into),
        ("dp.get_session", dp.get_session),
    ],
)
def test_signatures_of_the_docs_are_those_of_the_code(
    called: str, function: Callable[..., object]
) -> None:
    (shown,) = re.findall(rf"^\| `{re.escape(called)}\((.*?)\)` \|", API, flags=re.MULTILINE)
    names: dict[str, Callable[..., object]] = {}
    exec(f"def f({shown.replace('...', '_rest=None')}): ...", names)
    documented = defaults(names["f"])
    leaves_out = documented.pop("_rest", None) is not None
    real = defaults(function)
    assert documented == (
        real if not leaves_out else {n: d for n, d in real.items() if n in documented}
    )
    assert len(documented) > 2


def defaults(function: Callable[..., object]) -> dict[str, tuple[str, object]]:
    """Parameters without `self`: whether only by keyword, and the default."""
    parameters = inspect.signature(function).parameters.values()
    return {p.name: (p.kind.name, p.default) for p in parameters if p.name != "self"}


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ("options of materialized views", "materialized_view"),
        ("of streaming tables and upserts", "upsert"),
        ("of streaming tables and upserts", "streaming_table"),
        ("of `view`", "view"),
        ("of `append_flow`", "append_flow"),
        ("of `temporary_view`", "temporary_view"),
        ("of `source`", "source"),
    ],
)
def test_the_docs_list_the_options_of_a_dataset(row: str, kind: Kind) -> None:
    (shown,) = re.findall(rf"^\| {row} \| `(.*?)`", API, flags=re.MULTILINE)
    with pytest.raises(dp.DeclarationError) as caught:
        checked_declaration(kind, "x", Query(sql="SELECT 1"), {"none_such": 1}, None, None)
    listed = re.findall(r"it has (.*)\.", caught.value.problems[0].message)[0]
    assert sorted(shown.split(", ")) == listed.split(", ")


def test_the_docs_say_what_a_table_leaves_to_its_flows() -> None:
    (shown,) = re.findall(r"the same without `(.*?)`", API)
    assert set(shown.split(", ")) == OF_QUERIES


def test_pictures_of_the_readme_exist() -> None:
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", README)
    assert pictures
    for picture in pictures:
        assert (ROOT / picture).is_file(), picture


def test_the_readme_is_short() -> None:
    assert README.count("\n") <= 120
