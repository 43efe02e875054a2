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


def test_the_page_of_errors_has_every_public_error() -> None:
    errors = [n for n in dp.__all__ if isinstance(getattr(dp, n), type) and n.endswith("Error")]
    page = (DOCS / "errors.md").read_text()
    assert len(errors) > 10
    assert [name for name in errors if f"| `{name}`" not in page] == []


def test_the_page_of_settings_has_every_setting_variable_and_property() -> None:
    page = (DOCS / "settings.md").read_text()
    names = re.compile(
        r'[=(,] ?"(spark\.delta_pipelines\.[\w.]+|DELTA_PIPELINES_[A-Z_]+|PGPASSWORD'
        r'|pipelines\.(?:reset|maintenance)\.\w+)"'
    )
    sources = [path.read_text() for path in (ROOT / "delta_pipelines").rglob("*.py")]
    used = {name for source in sources for name in names.findall(source)}
    assert len(used) > 10
    assert sorted(name for name in used if f"`{name}`" not in page) == []


def test_the_page_of_commands_is_made_from_the_commands() -> None:
    block = re.search(r"::: mkdocs-click\n((?: {4}:.*\n)+)", (DOCS / "command-line.md").read_text())
    assert block
    options = dict(re.findall(r":(\w+): (\S+)", block[1]))
    assert options["module"] == cli.callback.__module__
    assert options["command"] == cli.callback.__name__
