"""What the docs pages show works: code runs, options exist, links lead somewhere."""

import re
from pathlib import Path

import dagster as dg
import pytest
import yaml
from click.testing import CliRunner

import delta_pipelines as dp
from delta_pipelines.cli import cli

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.glob("*.md"))


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs_and_its_pipelines_resolve(page: Path) -> None:
    names: dict[str, object] = {}
    for number, block in enumerate(blocks(page, "python")):
        exec(compile(block, f"{page.name} block {number}", "exec"), names)
    pipelines = [value for value in names.values() if isinstance(value, dp.Pipeline)]
    assert pipelines
    for pipeline in pipelines:
        assert pipeline.graph().assets
    for definitions in names.values():
        if isinstance(definitions, dg.Definitions):
            dg.Definitions.validate_loadable(definitions)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_options_of_its_commands_exist(page: Path) -> None:
    for line in "\n".join(blocks(page, "shell")).splitlines():
        if not line.startswith("delta-pipelines "):
            continue
        command, *words = line.split()[1:]
        told = CliRunner().invoke(cli, [command, "--help"]).output
        for option in (word for word in words if word.startswith("--")):
            assert re.search(rf"{option}\b", told), f"{command} has no {option}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_its_links_lead_to_pages(page: Path) -> None:
    for target in re.findall(r"\]\(([\w./-]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_its_yaml_is_yaml(page: Path) -> None:
    for block in blocks(page, "yaml"):
        assert isinstance(yaml.safe_load(block), dict)
