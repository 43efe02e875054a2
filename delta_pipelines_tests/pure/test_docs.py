"""What the docs pages show works: code runs, options exist, links lead somewhere."""

import re
import sys
from pathlib import Path
from types import ModuleType

import dagster as dg
import pytest
import yaml
from click.testing import CliRunner

import delta_pipelines as dp
from delta_pipelines.cli.commands import cli

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(set(DOCS.glob("*.md")) - {DOCS / "reference.md"})
"""Pages with code that runs here; the code of the README has its own tests."""
ALL_PAGES = [ROOT / "README.md", ROOT / "benchmarks" / "README.md", *PAGES]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs_and_its_pipelines_resolve(
    page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("shop")  # the tutorial's file, which a later block imports
    monkeypatch.setitem(sys.modules, "shop", module)
    names = vars(module)
    for number, block in enumerate(blocks(page, "python")):
        exec(compile(block, f"{page.name} block {number}", "exec"), names)
    pipelines = [value for value in names.values() if isinstance(value, dp.Pipeline)]
    assert pipelines or not blocks(page, "python")
    for pipeline in pipelines:
        assert pipeline.graph().assets
    for definitions in names.values():
        if isinstance(definitions, dg.Definitions):
            dg.Definitions.validate_loadable(definitions)


@pytest.mark.parametrize("page", ALL_PAGES, ids=name_of)
def test_the_options_of_its_commands_exist(page: Path) -> None:
    for line in "\n".join(blocks(page, "shell")).splitlines():
        if not line.startswith("delta-pipelines "):
            continue
        command, *words = line.split()[1:]
        help_text = CliRunner().invoke(cli, [command, "--help"]).output
        for option in (word for word in words if word.startswith("--")):
            assert re.search(rf"{option}\b", help_text), f"{command} has no {option}"


@pytest.mark.parametrize("page", ALL_PAGES, ids=name_of)
def test_links_of_a_page_lead_to_existing_pages_and_sections(page: Path) -> None:
    for target, section in re.findall(r"\]\(([\w./-]*)(?:#([\w-]+))?\)", page.read_text()):
        there = page.parent / target if target else page
        assert there.exists(), target
        headings = re.findall(r"^#+ (.*)$", there.read_text(), re.MULTILINE) if section else []
        anchors = [
            re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings
        ]
        assert not section or section in anchors, f"{target}#{section}"


def test_every_page_is_found_from_the_readme() -> None:
    linked = re.findall(r"\]\((docs/[\w./-]+\.md)", (ROOT / "README.md").read_text())
    assert set(linked) == {name_of(page) for page in PAGES} - {"docs/index.md"}


@pytest.mark.parametrize("page", ALL_PAGES, ids=name_of)
def test_yaml_of_a_page_is_valid(page: Path) -> None:
    for block in blocks(page, "yaml"):
        assert isinstance(yaml.safe_load(block), dict)
