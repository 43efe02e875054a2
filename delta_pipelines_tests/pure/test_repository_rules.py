"""Rules that every file of the repository keeps; each rule is first shown to find an offence."""

import ast
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache, partial
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "delta_pipelines"
MOST_LINES = 400
IMPORT_CPU_SECONDS = 1.0
ORDER = {
    "": (
        *("errors", "model", "system", "security", "graph", "user_code", "declare", "delta"),
        *("session", "merge", "planning", "update", "flows", "datasets", "execution"),
        *("maintenance", "pipeline", "cli", "dagster"),
    ),
    "delta": (
        *("jvm", "row_setting_rules", "maintenance", "query", "catalog", "storage", "log"),
        *("stream", "startup", "write", "merge"),
    ),
    "planning": (
        *("skipping", "planning_threads", "storage_root", "refresh_request"),
        *("asked_partitions", "refresh_set", "schema", "query", "partitions"),
        *("table_action", "plan", "planning_scope", "streams"),
        *("partition_planner", "table_planner", "view_planner", "planner"),
    ),
    "dagster": (
        *("specs", "run_config", "run", "assets", "resource", "jobs", "sources", "definitions"),
        *("component",),
    ),
}
"""Parts of a package from the ground up: each may import from those before it."""
EMPTY_WORDS = frozenset(
    {"told", "tell", "tells", "anew", "held", "whose", "begun", "somebody", "nobody"}
)
"""Words that no identifier has, also of a test: they do not say what a value is."""
PRIVATE_WORDS = EMPTY_WORDS | {"mark", "marks", "ends", "turn", "turns", "place", "places"}
"""Words that no identifier of the package has."""
FOREIGN_NAMES = frozenset({"trackHighWaterMarks"})
"""Of Delta's own classes."""

Rule = Callable[[str], Iterator[str]]

JVM_NAMES = frozenset({"_jvm", "_jsparkSession", "_jdf", "_jsc", "_sc"})
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:root|work|home/[\w.-]+|Users/[\w.-]+)/[\w.]")
WINDOWS_PATH = re.compile(r"\b[A-Z]:\\(?:Users|home)\b", re.IGNORECASE)
# Not even this file may hold the name of a host: they are put together here.
_HOSTS = "pypi org|python-hosted org|npmjs org|maven org|maven apache org|golang org|crates io"
REGISTRY_HOST = re.compile(
    rf"\b(?:{_HOSTS}|deb debian org|anaconda org)\b|".replace(" ", r"\.") + r"repo1\.\w|"
    r"(?:index-url|find-links|index_url)\s*[=:\s]\s*['\"]?(?:https?:|/)",
    re.IGNORECASE,
)


def jvm_uses(text: str) -> Iterator[str]:
    """Attributes and names of Spark's private JVM handles, in code (not in comments or prose)."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Attribute(attr=name) | ast.Name(id=name) | ast.Constant(value=str(name)):
                if name in JVM_NAMES:
                    yield f"line {node.lineno}: {name}"
            case _:
                pass


def dagster_imports(text: str) -> Iterator[str]:
    """Imports of dagster or one of its libraries, also inside functions."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=aliases):
                modules = [alias.name for alias in aliases]
            case ast.ImportFrom(module=str(module), level=0):
                modules = [module]
            case ast.Call(
                func=ast.Attribute(attr="import_module") | ast.Name(id="__import__"),
                args=[ast.Constant(value=str(module)), *_],
            ):
                modules = [module]
            case _:
                continue
        for module in modules:
            if re.match(r"dagster(_\w+)?(\.|$)", module):
                yield f"line {node.lineno}: {module}"


def package_imports(text: str) -> set[str]:
    """Modules of the package that a module imports, also inside functions and for types alone."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name.removeprefix("delta_pipelines.") for name in found if name in modules()}


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    paths = (path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in paths}


def upward_imports(importer: str, imported: set[str]) -> Iterator[str]:
    """Imports that the order of the package that both are in forbids."""
    for other in sorted(imported):
        for package, order in ORDER.items():
            prefix = f"{package}." if package else ""
            if importer.startswith(prefix) and other.startswith(prefix):
                one, two = (n[len(prefix) :].partition(".")[0] for n in (importer, other))
                if order.index(two) > order.index(one):
                    yield f"{importer}: {other}"


def circles(graph: dict[str, set[str]]) -> list[str]:
    """Modules that import each other, each with the next one of its circle."""
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        return list(error.args[1])
    return []


def private_words(text: str, words: frozenset[str] = PRIVATE_WORDS) -> Iterator[str]:
    """Identifiers with a word that says nothing to a maintainer."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                pass
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.keyword(arg=str(name)):
                pass
            case _:
                continue
        parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)
        if name not in FOREIGN_NAMES and words & {part.lower() for part in parts}:
            yield f"line {node.lineno}: {name}"


def prints(text: str) -> Iterator[str]:
    """Calls of the built-in `print`."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(func=ast.Name(id="print")):
                yield f"line {node.lineno}: print("
            case _:
                pass


def too_long(text: str) -> Iterator[str]:
    """Files that a reader cannot take in."""
    lines = len(text.splitlines())
    if lines >= MOST_LINES:
        yield f"{lines} lines"


def machine_paths(text: str) -> Iterator[str]:
    """Absolute paths of a machine."""
    yield from _found(text, MACHINE_PATH, WINDOWS_PATH)


def registry_hosts(text: str) -> Iterator[str]:
    """Hosts of package registries: which one is used is the business of the machine's client."""
    yield from _found(text, REGISTRY_HOST)


def _found(text: str, *patterns: re.Pattern[str]) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), start=1):
        for pattern in patterns:
            if match := pattern.search(line):
                yield f"line {number}: {match[0]}"


@pytest.mark.parametrize(
    ("rule", "offence", "allowed"),
    [
        (jvm_uses, "spark._jvm.java", "jvm = spark.version  # _jvm"),
        (jvm_uses, "getattr(frame, '_jdf')", "'reads frame._jdf no more'"),
        (jvm_uses, "session._sc.stop()", "self._schema"),
        (dagster_imports, "import dagster as dg", "import delta_pipelines.dagster"),
        (dagster_imports, "def f():\n    from dagster._core import x", "from dagsterish import x"),
        (dagster_imports, "from dagster_pyspark import LazyPySparkResource", "dagster = 1"),
        (dagster_imports, "importlib.import_module('dagster')", "importlib.import_module('rich')"),
        (private_words, "told = 1", "message = 'told'"),
        (private_words, "class _EndsOfFiles: ...", "appends = returned.bookmarks"),
        (prints, "if x:\n    print(x)", "console.print(x)"),
        (too_long, "x = 1\n" * MOST_LINES, "x = 1\n" * (MOST_LINES - 1)),
        (machine_paths, "data = '/home/" + "ann/data'", "data = Path.home() / 'data'"),
        (machine_paths, "see /wor" + "k/main/x", "artwork/main, ./wor" + "k/main"),
        (machine_paths, r"open('C:\Us" + r"ers\ann')", "s3://bucket/root" + "/x"),
        (registry_hosts, "https://pypi" + ".org/simple", "published on PyPI"),
        (registry_hosts, "--index-url " + "https://mirror", "--no-emit-index-url"),
    ],
)
def test_each_rule_finds_an_offence_and_leaves_its_neighbour_alone(
    rule: Rule, offence: str, allowed: str
) -> None:
    assert list(rule(offence))
    assert not list(rule(allowed))


def package_files(*, outside: str | None = None) -> Iterator[Path]:
    """Modules of the package, without those of one sub-package."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if outside is None or PACKAGE / outside not in path.parents:
            yield path


def offences(rule: Rule, paths: Iterator[Path]) -> list[str]:
    """Every offence against a rule, with its file."""
    texts = [(path, path.read_text(encoding="utf-8")) for path in paths]
    assert texts, "there is nothing to check"
    return [f"{path.relative_to(ROOT)}: {found}" for path, text in texts for found in rule(text)]


def test_a_module_imports_only_from_packages_below_it() -> None:
    imports = "if TYPE_CHECKING:\n    from delta_pipelines.merge import spec\nimport re"
    assert package_imports(imports) == {"merge.spec"}
    assert list(upward_imports("model.results", {"errors", "graph.graph"})) == [
        "model.results: graph.graph"
    ]
    assert list(upward_imports("delta.jvm.bridge", {"delta.log.loading"}))
    for package, order in ORDER.items():
        there = {path.stem for path in (PACKAGE / package).glob("*.py")} - {"__init__"}
        there |= {path.parent.name for path in (PACKAGE / package).glob("*/__init__.py")}
        assert sorted(order) == sorted(there)
    graph = {
        name.removeprefix("delta_pipelines."): package_imports(path.read_text(encoding="utf-8"))
        for name, path in modules().items()
    }
    assert [up for name, imported in graph.items() for up in upward_imports(name, imported)] == []
    assert circles({"a": {"b"}, "b": {"a"}})
    assert circles(graph) == []


def test_no_folder_of_the_package_has_too_many_files() -> None:
    counts = Counter(str(path.parent.relative_to(PACKAGE)) for path in modules().values())
    assert {folder: n for folder, n in counts.items() if n > (6 if folder == "." else 25)} == {}


def test_only_the_delta_room_touches_the_jvm() -> None:
    assert offences(jvm_uses, package_files(outside="delta")) == []


def test_only_the_dagster_layer_imports_dagster() -> None:
    assert offences(dagster_imports, package_files(outside="dagster")) == []


def test_the_package_prints_nothing() -> None:
    assert offences(prints, package_files()) == []


def test_identifiers_say_what_a_value_is() -> None:
    assert offences(private_words, package_files()) == []


@pytest.mark.parametrize("folder", ["delta_pipelines_tests", "benchmarks", "examples"])
def test_identifiers_of_tests_and_examples_say_what_a_value_is(folder: str) -> None:
    rule = partial(private_words, words=EMPTY_WORDS)
    assert offences(rule, (ROOT / folder).rglob("*.py")) == []


def test_no_file_of_the_package_is_too_long() -> None:
    assert offences(too_long, package_files()) == []


def repository_files() -> Iterator[Path]:
    """Text files that are committed, or would be with `git add .`."""
    git = shutil.which("git")
    assert git is not None, "install git: what is tracked is asked of it"
    listing = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run([git, *listing], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if path.is_file() and b"\0" not in path.read_bytes()[:8192]:
            yield path


def test_no_tracked_file_names_a_path_of_a_machine() -> None:
    assert offences(machine_paths, repository_files()) == []


def test_no_tracked_file_names_a_package_registry() -> None:
    assert offences(registry_hosts, repository_files()) == []


GENERATED = re.compile(
    r"(^|/)(_delta_log|_metastore|metastore_db|spark-warehouse|_checkpoints|__pycache__)/"
    r"|^(warehouse|build|dist)/|\.(parquet|crc|jsa|pyc|lck|class)$"
)


def generated(names: Iterator[str]) -> list[str]:
    """Names of files that a run leaves behind."""
    return [name for name in names if GENERATED.search(name)]


def test_no_generated_data_is_tracked() -> None:
    assert generated(iter(["warehouse/s.db/t/part-0.snappy.parquet", "a/_delta_log/0.json"]))
    assert not generated(iter(["delta_pipelines/warehouse.py", "docs/build.md"]))
    git = shutil.which("git")
    assert git is not None
    listed = subprocess.run(
        [git, "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert generated(iter(listed.stdout.split("\0"))) == []


IMPORT_PROBE = """
import sys, time
before = time.process_time()
{statement}
cpu = time.process_time() - before
dagster = sorted(m for m in sys.modules if m.partition("_")[0].partition(".")[0] == "dagster")
sys.stdout.write(repr((cpu, dagster)))
"""


def import_costs(statement: str, folder: Path) -> tuple[float, list[str], bool]:
    """Run a statement in a fresh interpreter: its CPU seconds, dagster's modules, a JVM's start.

    `java` is a script that leaves a mark, so that even a JVM that ends at once is seen.
    """
    java = folder / "bin" / "java"
    mark = folder / "started"
    java.parent.mkdir(parents=True, exist_ok=True)
    java.write_text(f"#!/bin/sh\necho x >> '{mark}'\nexit 1\n")
    java.chmod(0o755)
    ended = subprocess.run(
        [sys.executable, "-c", IMPORT_PROBE.format(statement=statement)],
        cwd=ROOT,
        env={"JAVA_HOME": str(folder), "PATH": f"{java.parent}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    cpu, dagster = ast.literal_eval(ended.stdout)
    return cpu, dagster, mark.exists()


def test_importing_the_package_is_cheap_and_starts_no_jvm_and_no_dagster(tmp_path: Path) -> None:
    # The least of a few: other processes of the machine cost an import CPU time too.
    costs = [import_costs("import delta_pipelines", tmp_path / str(run)) for run in range(3)]
    assert [started for _, _, started in costs] == [False] * 3
    assert [dagster for _, dagster, _ in costs] == [[]] * 3
    assert min(cpu for cpu, _, _ in costs) < IMPORT_CPU_SECONDS


def test_the_import_probe_sees_a_jvm_dagster_and_cpu_time(tmp_path: Path) -> None:
    jvm = (
        "try:\n    from pyspark.sql import SparkSession; SparkSession.builder.getOrCreate()\n"
        "except Exception:\n    pass"
    )
    assert import_costs(jvm, tmp_path)[2]
    busy = "import dagster_pyspark\nwhile time.process_time() < 1.1: pass"
    cpu, dagster, _ = import_costs(busy, tmp_path / "busy")
    assert cpu > 0.1
    assert "dagster_pyspark" in dagster
