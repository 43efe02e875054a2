"""The `delta-pipelines` command, as far as it needs no Java."""

import logging
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from math import inf
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result
from pyspark import cloudpickle

from delta_pipelines.cli import commands as command
from delta_pipelines.cli.console import console_on
from delta_pipelines.errors import PipelineError, SessionError
from delta_pipelines.model.named_sequence import NamedSequence
from delta_pipelines.planning.plan import Plan
from delta_pipelines.planning.refresh_request import RefreshRequest

GOOD = """
import delta_pipelines as dp

sales = dp.Pipeline("sales", schema="sales")
other = dp.Pipeline("other", schema="other")
number = 3

@sales.materialized_view
def orders(spark): ...

sales.view("big_orders", "SELECT * FROM orders WHERE n > 1")
sales.temporary_view("unread", "SELECT 1 AS n")
"""
BAD = GOOD + 'sales.view("wrong", "SELECT * FROM ordres")\n'


@pytest.fixture(autouse=True)
def _forget_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave neither modules nor search paths of scratch pipelines behind."""
    monkeypatch.setenv("PYTHONPATH", "first" + os.pathsep + "second")
    modules, paths = set(sys.modules), list(sys.path)
    yield
    sys.path[:] = paths
    for name in set(sys.modules) - modules:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder with pipelines; the command starts in it, and no Java is found."""
    (tmp_path / "scratch_sales.py").write_text(GOOD, encoding="utf-8")
    (tmp_path / "scratch_bad.py").write_text(BAD, encoding="utf-8")
    (tmp_path / "scratch_broken.py").write_text("import no_such_module_at_all\n", encoding="utf-8")
    (tmp_path / "scratch_package").mkdir()
    (tmp_path / "scratch_package" / "__init__.py").touch()
    (tmp_path / "scratch_package" / "definitions.py").write_text(GOOD, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "")
    for name in ("JAVA_HOME", "DELTA_PIPELINES_WAREHOUSE", "DELTA_PIPELINES_CATALOG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(command.cli, list(arguments))


@pytest.mark.parametrize(
    "target",
    ["scratch_sales.py:sales", "scratch_sales:sales", "scratch_package.definitions:sales"],
)
def test_validate_lists_datasets_and_warnings(folder: Path, target: str) -> None:
    result = invoke("validate", target)
    assert result.exit_code == 0, result.output
    assert "sales.orders" in result.stdout
    assert "sales.big_orders" in result.stdout
    assert "2 datasets, no problems." in result.stdout
    assert "unread" in result.stderr


def test_validate_shows_declared_columns_and_constraints(folder: Path) -> None:
    declared = """
sales.materialized_view("items", "SELECT 1 AS n", columns="n INT NOT NULL", constraints={
    "positive": "n > 0"}, column_comments={"n": "[bold]number[/bold]"})
"""
    (folder / "scratch_declared.py").write_text(GOOD + declared, encoding="utf-8")
    shown = invoke("validate", "scratch_declared.py:sales").stdout
    assert "sales.items columns: n INT NOT NULL" in shown
    assert "sales.items comment on n: [bold]number[/bold]" in shown
    assert "sales.items constraint positive: n > 0" in shown


def test_validate_takes_a_path_from_anywhere(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    assert invoke("validate", f"{folder / 'scratch_sales.py'}:sales").exit_code == 0


def test_validate_reports_every_problem_with_its_line(folder: Path) -> None:
    result = invoke("validate", "scratch_bad.py:sales")
    assert result.exit_code == 1
    assert isinstance(result.exception, PipelineError)
    assert "did you mean 'orders'?" in str(result.exception)
    assert f"scratch_bad.py:{len(BAD.splitlines())}" in str(result.exception)


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("scratch_sales.py", "not of the form module:variable"),
        ("missing.py:sales", "there is no file 'missing.py'"),
        ("no.such.module:sales", "cannot import no.such.module"),
        ("scratch_sales.py:saels", "has no pipeline 'saels'. It has: sales, other."),
        ("scratch_sales.py:number", "has no pipeline 'number'"),
        ("scratch_broken.py:sales", "no_such_module_at_all"),
    ],
)
@pytest.mark.parametrize("subcommand", ["validate", "plan", "run"])
def test_a_wrong_target_is_one_sentence_before_anything_starts(
    folder: Path, subcommand: str, target: str, why: str
) -> None:
    result = invoke(subcommand, target)
    assert result.exit_code == 2
    assert why in " ".join(result.output.split())
    assert "Traceback" not in " ".join(result.output.split())


def test_history_of_an_unknown_dataset_suggests_one_before_spark_starts(folder: Path) -> None:
    result = invoke("history", "scratch_sales.py:sales", "ordres")
    assert result.exit_code == 1
    assert "did you mean 'orders'?" in str(result.exception)


def test_history_of_a_view_names_what_it_reads(folder: Path) -> None:
    result = invoke("history", "scratch_sales.py:sales", "big_orders")
    assert result.exit_code == 1
    assert "a view has no commits of its own; it reads sales.orders." in str(result.exception)


@pytest.mark.parametrize("subcommand", ["plan", "run"])
@pytest.mark.parametrize("option", ["--refresh", "--full-refresh", "--reset-checkpoint"])
def test_a_wrong_name_of_a_selection_suggests_one_before_spark_starts(
    folder: Path, monkeypatch: pytest.MonkeyPatch, subcommand: str, option: str
) -> None:
    monkeypatch.setattr(command, "session", lambda *_: pytest.fail("Spark starts"))
    result = invoke(subcommand, "scratch_sales.py:sales", option, "ordres")
    assert result.exit_code == 1
    assert "did you mean 'orders'?" in str(result.exception)


@pytest.mark.parametrize("subcommand", ["plan", "run"])
def test_wrong_declarations_are_reported_before_spark_starts(
    folder: Path, monkeypatch: pytest.MonkeyPatch, subcommand: str
) -> None:
    monkeypatch.setattr(command, "session", lambda *_: pytest.fail("Spark starts"))
    result = invoke(subcommand, "scratch_bad.py:sales")
    assert result.exit_code == 1
    assert "did you mean 'orders'?" in str(result.exception)


def test_the_console_script_prints_an_expected_error_in_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["delta-pipelines", "validate", "scratch_bad.py:sales"])
    with pytest.raises(SystemExit) as caught:
        command.main()
    assert caught.value.code == 1
    output = capfd.readouterr().err
    assert "did you mean 'orders'?" in output
    assert "Traceback" not in output


def test_two_files_of_one_name_are_two_modules(folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    other = folder / "elsewhere" / "scratch_sales.py"
    other.write_text(GOOD.replace("orders", "invoices"), encoding="utf-8")
    assert "sales.orders" in invoke("validate", "scratch_sales.py:sales").stdout
    assert "sales.invoices" in invoke("validate", f"{other}:sales").stdout


def test_a_file_may_be_named_like_a_module_that_is_loaded_already(folder: Path) -> None:
    (folder / "json.py").write_text(GOOD, encoding="utf-8")
    assert "sales.orders" in invoke("validate", "json.py:sales").stdout


class Called(dict[str, object]):
    """What the engine was asked for, instead of being run."""

    def instead(self, result: object = None) -> Callable[..., object]:
        def record(*arguments: object, **options: object) -> object:
            self.update(options, arguments=arguments)
            return result

        return record


WITH_SESSION = [
    ("plan", "scratch_sales.py:sales"),
    ("run", "scratch_sales.py:sales"),
    ("history", "scratch_sales.py:sales", "orders"),
    ("maintain", "scratch_sales.py:sales"),
]


@pytest.mark.parametrize("words", WITH_SESSION, ids=lambda words: words[0])
@pytest.mark.parametrize(
    ("given", "waits"),
    [((), 600.0), (("--lock-timeout", "5"), 5.0), (("--lock-timeout", "inf"), inf)],
)
def test_every_command_with_a_session_says_how_long_it_waits_for_the_catalog(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    given: tuple[str, ...],
    waits: float,
) -> None:
    def busy(warehouse: str, **options: object) -> None:
        asked.update(options, warehouse=warehouse)
        raise SessionError("the catalog is in use.")

    asked: dict[str, object] = {}
    monkeypatch.setattr("delta_pipelines.session.session.get_session", busy)
    options = ("--warehouse", "there", "--catalog", "postgresql://u@h/d", *given)
    assert isinstance(invoke(*words, *options).exception, SessionError)
    asked_of = {"warehouse": "there", "catalog": "postgresql://u@h/d"}
    assert asked == {**asked_of, "config": {}, "lock_timeout": waits}


@pytest.mark.parametrize("option", ["--lock-timeout", "--lease-timeout"])
def test_a_timeout_is_not_negative(folder: Path, option: str) -> None:
    result = invoke("run", "scratch_sales.py:sales", option, "-1")
    assert result.exit_code == 2
    assert option in result.output


@pytest.mark.parametrize(("given", "waits"), [((), 600.0), (("--lease-timeout", "7"), 7.0)])
def test_a_run_waits_for_other_runs_for_its_lease_timeout(
    folder: Path, monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...], waits: float
) -> None:
    called = Called()
    graph = command.load_pipeline("scratch_sales.py:sales").graph()
    made = Plan("sales", graph, NamedSequence([]))
    monkeypatch.setattr("delta_pipelines.session.session.get_session", lambda *_, **__: object())
    planner = Called()
    monkeypatch.setattr("delta_pipelines.cli.run_view.make_plan", planner.instead(made))
    execution = SimpleNamespace(results=lambda: (result for result in ()))
    monkeypatch.setattr("delta_pipelines.cli.run_view.Execution", called.instead(execution))
    result = invoke("run", "scratch_sales.py:sales", "--force", *given)
    assert result.exit_code == 0, result.output
    assert isinstance(planner["arguments"], tuple)
    assert planner["arguments"][2] == RefreshRequest(force=True)
    assert called["lease_timeout"] == waits


@pytest.mark.parametrize(("given", "waits"), [((), 600.0), (("--lease-timeout", "7"), 7.0)])
def test_maintenance_waits_for_other_runs_for_its_lease_timeout(
    folder: Path, monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...], waits: float
) -> None:
    called = Called()
    session = object()
    (folder / "warehouse" / "_metastore" / "derby").mkdir(parents=True)
    monkeypatch.setattr("delta_pipelines.session.session.get_session", lambda *_, **__: session)
    nothing = SimpleNamespace(results=lambda: [])
    monkeypatch.setattr("delta_pipelines.maintenance.run.Maintenance", called.instead(nothing))
    result = invoke("maintain", "scratch_sales.py:sales", "--dataset", "orders", *given)
    assert result.exit_code == 0, result.output
    spark, pipeline, (table,) = called["arguments"]
    assert (spark, pipeline, table.name) == (session, "sales", "orders")
    assert called["lease_timeout"] == waits


@pytest.mark.parametrize("subcommand", ["plan", "run"])
def test_a_selection_is_accepted_in_every_form(subcommand: str) -> None:
    help_text = invoke(subcommand, "--help").output
    for option in ("--refresh", "--full-refresh", "--full-refresh-all", "--reset-checkpoint"):
        assert f"{option} " in help_text
    assert "--force" in help_text
    assert "--strict" in help_text


def test_help_says_what_a_target_is() -> None:
    result = invoke("--help")
    assert result.exit_code == 0
    for word in ("TARGET", "validate", "plan", "run", "history"):
        assert word in " ".join(result.output.split())


def test_log_lines_name_their_level_and_where_they_come_from() -> None:
    record = logging.LogRecord("delta_pipelines.merge", logging.WARNING, "", 0, "odd", (), None)
    assert command._WithoutCredentials().format(record) == "WARNING delta_pipelines.merge: odd"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def (:", "broken.py is not valid Python: "),
        ("import delta_pipelines\n1 / 0", "broken.py raised ZeroDivisionError: division by zero ("),
    ],
)
def test_a_file_that_cannot_be_imported_is_one_sentence(
    folder: Path, text: str, message: str
) -> None:
    (folder / "broken.py").write_text(text)
    result = CliRunner().invoke(command.cli, ["validate", "broken.py:sales"])
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
    assert "Traceback" not in " ".join(result.output.split())


@pytest.mark.parametrize("error", ["OSError", "ModuleNotFoundError"])
def test_the_error_of_a_file_that_cannot_be_imported_shows_no_credential(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "of no use")
    lines = [
        "import os",
        "os.environ['SHOP_PASSWORD'] = 'swordfish'",
        f"raise {error}('no postgresql://u:hunter22@h/db by swordfish')",
    ]
    (folder / "broken.py").write_text("\n".join(lines))
    result = invoke("validate", "broken.py:sales")
    assert result.exit_code == 2
    assert "no postgresql://***@h/db by ***" in " ".join(result.output.split())


def test_the_name_of_a_file_may_hold_a_dot(folder: Path) -> None:
    (folder / "my.shop.py").write_text(GOOD, encoding="utf-8")
    assert "sales.orders" in invoke("validate", "my.shop.py:sales").stdout


def test_a_file_with_a_dot_in_its_name_imports_no_package(folder: Path) -> None:
    (folder / "my.shop.py").write_text("import no_such_module_at_all\n", encoding="utf-8")
    (folder / "my.py").write_text("raise SystemExit('not asked for')", encoding="utf-8")
    result = invoke("validate", "my.shop.py:sales")
    assert result.exit_code == 2
    assert "cannot import my.shop.py: No module named 'no_such_module_at_all'" in result.output


def test_functions_of_a_file_with_a_dot_in_its_name_reach_spark_workers(folder: Path) -> None:
    text = GOOD + "def half(n): return n / 2\nsales.half = half\n"
    (folder / "my.shop.py").write_text(text, encoding="utf-8")
    half = vars(command.load_pipeline("my.shop.py:sales"))["half"]
    sent = cloudpickle.dumps(half)
    del sys.modules[half.__module__]  # as in a worker, which has never loaded the file
    assert pickle.loads(sent)(4) == 2


def test_names_are_whole_in_a_pipe(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)  # the suite's own workers may have it
    monkeypatch.setattr(command, "console", console_on())
    name = "orders_" + "x" * 90
    (folder / "long.py").write_text(GOOD.replace("orders", name), encoding="utf-8")
    lines = invoke("validate", "long.py:sales").stdout.splitlines()
    assert [f"sales.{name}", "materialized_view"] in [line.split() for line in lines]
    assert ["sales.big_" + name, "view", f"sales.{name}"] in [line.split() for line in lines]


def paths() -> list[str]:
    return os.environ["PYTHONPATH"].split(os.pathsep)


def test_spark_workers_look_first_where_the_pipelines_file_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "pipelines").mkdir()
    text = GOOD + "import os\nsales.seen = os.environ['PYTHONPATH']\n"
    (folder / "pipelines" / "shop_in_folder.py").write_text(text, encoding="utf-8")
    pipelines = str(folder / "pipelines")
    loaded = command.load_pipeline("pipelines/shop_in_folder.py:sales")
    assert paths() == [pipelines, "first", "second"]
    # A module may start Spark while it is imported.
    assert vars(loaded)["seen"].startswith(pipelines + os.pathsep)
    command.load_pipeline("pipelines/shop_in_folder.py:sales")
    assert paths() == [pipelines, "first", "second"]
    monkeypatch.delenv("PYTHONPATH")
    command.load_pipeline("scratch_package.definitions:sales")
    assert paths() == [str(folder)]


@pytest.mark.parametrize("beside", ["calendar.py", "types/__init__.py"])
def test_a_module_beside_it_hides_none_of_pythons_own_from_spark_workers(
    folder: Path, beside: str
) -> None:
    (folder / "pipelines" / beside).parent.mkdir(parents=True)
    (folder / "pipelines" / beside).touch()
    text = GOOD + "def half(n): return n / 2\nsales.half = half\n"
    (folder / "pipelines" / "shop_beside.py").write_text(text, encoding="utf-8")
    half = vars(command.load_pipeline("pipelines/shop_beside.py:sales"))["half"]
    assert paths() == ["first", "second"]
    sent = cloudpickle.dumps(half)
    del sys.modules["shop_beside"]  # as in a worker, which cannot import it
    sys.path.remove(str(folder / "pipelines"))
    assert pickle.loads(sent)(4) == 2


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--catalog", "postgresql://etl@localhost/metastore"], "leave out `--catalog`"),
        ([], "There is no embedded catalog in"),
    ],
)
def test_only_an_embedded_catalog_is_relocated(
    tmp_path: Path, options: list[str], why: str
) -> None:
    arguments = ["relocate", "--warehouse", str(tmp_path / "nothing here"), *options]
    result = CliRunner().invoke(command.cli, arguments)
    assert isinstance(result.exception, SessionError)
    assert why in str(result.exception)
    assert not (tmp_path / "nothing here").exists()
