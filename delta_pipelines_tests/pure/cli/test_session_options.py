"""Where a command's session is, and with which settings; no Java is started."""

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import click
import pytest
from click.testing import CliRunner, Result

from delta_pipelines.cli import commands as command
from delta_pipelines.cli.console import Credentials
from delta_pipelines.cli.options import SessionOptions, new_warehouse, settings_from
from delta_pipelines.errors import SessionError

SHOP = """
import delta_pipelines as dp

shop = dp.Pipeline("shop", schema="shop")
shop.materialized_view("orders", "SELECT 1 AS n")
"""
TARGET = "scratch_session_options:shop"
WITH_SESSION = [("plan", TARGET), ("run", TARGET), ("history", TARGET, "orders")]
WITH_SESSION += [("maintain", TARGET)]
SECRET = ("--conf", "spark.hadoop.fs.s3a.secret.key=swordfish")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's folder with a pipeline, in which the command is started."""
    (tmp_path / "scratch_session_options.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "")
    for name in ("DELTA_PIPELINES_WAREHOUSE", "DELTA_PIPELINES_CATALOG"):
        monkeypatch.delenv(name, raising=False)
    yield tmp_path
    sys.modules.pop("scratch_session_options", None)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """What `get_session` was asked for."""
    asked: dict[str, object] = {}

    def refuse(warehouse: str, **options: object) -> NoReturn:
        asked.update(options, warehouse=warehouse)
        logging.getLogger("scratch").warning("soon no access with swordfish")
        raise SessionError("no access with swordfish.")

    monkeypatch.setattr("delta_pipelines.session.session.get_session", refuse)
    return asked


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(command.cli, list(arguments))


def with_catalog(folder: Path) -> None:
    (folder / "_metastore" / "derby").mkdir(parents=True)


@pytest.mark.parametrize("words", WITH_SESSION, ids=lambda words: words[0])
def test_every_command_with_a_session_takes_spark_settings(
    folder: Path, asked: dict[str, object], words: tuple[str, ...]
) -> None:
    with_catalog(folder / "warehouse")
    options = ["spark.sql.session.timeZone=UTC", "spark.driver.extraJavaOptions=-Da=b", "spark.x="]
    result = invoke(*words, *(word for text in options for word in ("--conf", text)))
    assert isinstance(result.exception, SessionError)
    assert asked["config"] == {
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.extraJavaOptions": "-Da=b",
        "spark.x": "",
    }


def test_of_one_setting_the_last_value_counts() -> None:
    assert settings_from(["spark.x=1", "spark.y=2", " spark.x =3"]) == {
        "spark.x": "3",
        "spark.y": "2",
    }


@pytest.mark.parametrize(
    ("text", "why"), [("swordfish", "no `=`"), ("=swordfish", "no key"), (" =swordfish", "no key")]
)
def test_a_setting_without_key_or_value_is_refused_and_not_repeated(
    folder: Path, text: str, why: str
) -> None:
    with pytest.raises(click.BadParameter, match="setting 2 of 2 has"):
        settings_from(["spark.x=1", text])
    result = invoke("run", TARGET, "--conf", text)
    assert result.exit_code == 2
    output = " ".join(result.output.split())
    assert "'--conf': setting 1 of 1 has" in output
    assert why in output
    assert "swordfish" not in output


@pytest.mark.parametrize("words", WITH_SESSION, ids=lambda words: words[0])
def test_errors_and_log_lines_show_no_credential_of_the_settings(
    folder: Path,
    asked: dict[str, object],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    words: tuple[str, ...],
) -> None:
    with_catalog(folder / "warehouse")
    monkeypatch.setattr(sys, "argv", ["delta-pipelines", *words, *SECRET])
    with pytest.raises(SystemExit) as caught:
        command.main()
    assert caught.value.code == 1
    assert capfd.readouterr().err == "no access with ***.\n"
    assert caplog.text == "WARNING scratch: soon no access with ***\n"


def test_an_error_of_another_library_shows_no_credential_of_the_settings(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> NoReturn:
        raise ConnectionError("no access with swordfish")

    monkeypatch.setattr("delta_pipelines.session.session.get_session", fail)
    monkeypatch.setattr(sys, "argv", ["delta-pipelines", "run", TARGET, *SECRET])
    with pytest.raises(ConnectionError) as caught:
        command.main()
    assert str(caught.value) == "no access with ***"


def test_the_error_of_an_unknown_argument_shows_no_credential(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["run", TARGET, "--conf", "spark.x=1", SECRET[1]]
    monkeypatch.setattr(sys, "argv", ["delta-pipelines", *words])
    with pytest.raises(SystemExit) as caught:
        command.main()
    assert caught.value.code == 2
    output = capfd.readouterr().err
    assert "unexpected extra argument" in output
    assert "swordfish" not in output


def test_the_log_knows_settings_that_are_read_after_it_was_set_up() -> None:
    known = Credentials()
    formatter = command._WithoutCredentials(known)  # made before the options are read
    known.know(settings_from([SECRET[1]]))
    record = logging.LogRecord("a", logging.INFO, "", 0, "with swordfish", (), None)
    assert formatter.format(record) == "INFO a: with ***"
    assert "swordfish" not in repr(SessionOptions("w", None, 0.0, settings_from([SECRET[1]])))


@pytest.mark.parametrize("words", WITH_SESSION, ids=lambda words: words[0])
def test_the_environment_names_warehouse_and_catalog_and_the_help_says_so(
    folder: Path,
    asked: dict[str, object],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
) -> None:
    catalog = "postgresql://u@h:5432/d"
    monkeypatch.setenv("DELTA_PIPELINES_WAREHOUSE", "there")
    monkeypatch.setenv("DELTA_PIPELINES_CATALOG", catalog)
    invoke(*words)
    assert (asked["warehouse"], asked["catalog"]) == ("there", catalog)
    invoke(*words, "--warehouse", "elsewhere")
    assert (asked["warehouse"], asked["catalog"]) == ("elsewhere", catalog)
    help_text = " ".join(invoke(words[0], "--help").output.split())
    for name in ("DELTA_PIPELINES_WAREHOUSE", "DELTA_PIPELINES_CATALOG"):
        assert f"[env var: {name}" in help_text


@pytest.mark.parametrize("words", WITH_SESSION[2:], ids=lambda words: words[0])
def test_tables_are_not_looked_up_without_a_warehouse(
    folder: Path, asked: dict[str, object], words: tuple[str, ...]
) -> None:
    result = invoke(*words, "--warehouse", "wherehouse")
    assert isinstance(result.exception, SessionError)
    assert f"There is no warehouse in {folder / 'wherehouse'}: " in str(result.exception)
    assert not asked
    assert not (folder / "wherehouse").exists()
    with_catalog(folder / "wherehouse")
    invoke(*words, "--warehouse", "wherehouse")
    assert asked["warehouse"] == "wherehouse"


@pytest.mark.parametrize("words", WITH_SESSION[:2], ids=lambda words: words[0])
def test_a_new_warehouse_is_noted_before_it_is_created(
    folder: Path, asked: dict[str, object], words: tuple[str, ...]
) -> None:
    note = f"{folder / 'warehouse'} is a new warehouse."
    assert note in invoke(*words).stderr
    assert asked["warehouse"] == "./warehouse"
    with_catalog(folder / "warehouse")
    assert note not in invoke(*words).stderr


@pytest.mark.parametrize(
    "options",
    [
        SessionOptions("s3a://bucket/warehouse", "postgresql://u@h/d", 0.0),
        SessionOptions("w", None, 0.0, {"spark.sql.catalogImplementation": "in-memory"}),
        SessionOptions(
            *("w", None, 0.0),
            {"spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:derby://h:1527/d"},
        ),
    ],
)
def test_where_the_catalog_is_elsewhere_it_alone_knows_what_there_is(
    folder: Path, options: SessionOptions
) -> None:
    assert new_warehouse(options.of_an_existing_warehouse()) is None
