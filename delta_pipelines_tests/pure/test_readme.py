"""What the README shows works: its commands exist, its code runs, its run config is valid."""

import re
from pathlib import Path

import dagster as dg
import pytest
import yaml

import delta_pipelines as dp
import delta_pipelines.dagster

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


@pytest.fixture(scope="module")
def namespace() -> dict[str, object]:
    """The names that the README's Python blocks define, run one after the other."""
    names: dict[str, object] = {}
    for number, block in enumerate(blocks("python")):
        exec(compile(block, f"README block {number}", "exec"), names)
    return names


def test_its_commands_are_targets_of_the_makefile() -> None:
    commands = re.findall(r"^make (\w+)", "\n".join(blocks("shell")), flags=re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text()
    assert commands == ["demo", "test"]
    for command in commands:
        assert re.search(rf"^{command}:", makefile, flags=re.MULTILINE)


def test_its_pipeline_has_the_datasets_that_it_shows(namespace: dict[str, object]) -> None:
    pipeline = namespace["aviation"]
    assert isinstance(pipeline, dp.Pipeline)
    assert [asset.name for asset in pipeline.graph().assets] == [
        "airports_raw",
        "airports",
        "flights",
        "british_airports",
        "airports_per_country",
        "airport_history",
    ]


def test_its_run_config_is_valid_and_a_typo_in_it_is_not(namespace: dict[str, object]) -> None:
    definitions = namespace["defs"]
    assert isinstance(definitions, dg.Definitions)
    job = definitions.resolve_job_def("aviation_refresh")
    (config,) = (yaml.safe_load(block) for block in blocks("yaml"))
    assert dg.validate_run_config(job, config)
    config["ops"]["aviation"]["config"]["full_refresh"] = ["airports_rew"]
    with pytest.raises(dg.DagsterInvalidConfigError, match="airports_rew"):
        dg.validate_run_config(job, config)


def test_its_page_of_the_api_names_only_what_exists() -> None:
    for name in re.findall(r"`@?p\.(\w+)", README):
        assert hasattr(dp.Pipeline, name), name
    for name in re.findall(r"`dp\.(\w+)\(", README):
        assert name in dp.__all__, name
    for name in re.findall(r"from delta_pipelines\.dagster import (.*)", README)[0].split(", "):
        assert name in delta_pipelines.dagster.__all__


def test_its_pictures_exist() -> None:
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", README)
    assert pictures
    for picture in pictures:
        assert (ROOT / picture).is_file(), picture
