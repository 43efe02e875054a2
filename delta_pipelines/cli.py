"""The `delta-pipelines` command: validate, plan, run and look at the history, without Dagster."""

import importlib
import importlib.util
import json
import logging
import os
import sys
import traceback
import uuid
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import click
from rich.table import Table

from delta_pipelines.errors import PipelineError
from delta_pipelines.pipeline import Pipeline
from delta_pipelines.redaction import Redaction
from delta_pipelines.terminal.console import console_on
from delta_pipelines.terminal.options import (
    SessionOptions,
    force_option,
    full_refresh_all_option,
    full_refresh_option,
    lease_timeout_option,
    refresh_option,
    reset_checkpoint_option,
    session_options,
)
from delta_pipelines.worker_imports import let_workers_import

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

console = console_on()
errors = console_on(stderr=True)

target_argument = click.argument("target")


@click.group()
@click.option("-v", "--verbose", is_flag=True, help="Show the engine's log lines.")
@click.version_option(package_name="delta-pipelines")
def cli(verbose: bool) -> None:
    """Run delta_pipelines without Dagster.

    TARGET is a pipeline: `package.module:variable` or `path/to/file.py:variable`.
    """
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(_WithoutCredentials())


@cli.command()
@target_argument
def validate(target: str) -> None:
    """Check the declarations; needs no Java."""
    graph = load_pipeline(target).graph()
    table = Table("dataset", "kind", "reads", box=None, header_style="bold")
    for asset in graph.assets:
        reads = ", ".join(str(i) for i in graph.inputs(asset.identifier))
        table.add_row(str(asset.identifier), asset.kind, reads)
    console.print(table)
    for warning in graph.warnings:
        errors.print(f"warning: {warning}", style="yellow", markup=False)
    console.print(f"{len(graph.assets)} datasets, no problems.")


@cli.command()
@target_argument
@session_options
@refresh_option
@full_refresh_option
@full_refresh_all_option
@reset_checkpoint_option
@force_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plan(
    target: str,
    place: SessionOptions,
    refresh: tuple[str, ...],
    full_refresh: tuple[str, ...],
    full_refresh_all: bool,
    reset_checkpoints: tuple[str, ...],
    force: bool,
    as_json: bool,
) -> None:
    """Show what a run would do; changes nothing. Exits with 1 when something cannot be planned."""
    from delta_pipelines.terminal.plans import plan_text

    made = load_pipeline(target).plan(
        session(place),
        refresh=refresh or None,
        full_refresh=full_refresh,
        full_refresh_all=full_refresh_all,
        reset_checkpoints=reset_checkpoints,
        force=force,
    )
    if as_json:
        click.echo(json.dumps(made.to_dict(), indent=2))
    else:
        console.print(plan_text(made), end="", soft_wrap=True)
    if made.errors:
        sys.exit(1)


@cli.command()
@target_argument
@session_options
@refresh_option
@full_refresh_option
@full_refresh_all_option
@reset_checkpoint_option
@force_option
@lease_timeout_option
def run(
    target: str,
    place: SessionOptions,
    refresh: tuple[str, ...],
    full_refresh: tuple[str, ...],
    full_refresh_all: bool,
    reset_checkpoints: tuple[str, ...],
    force: bool,
    lease_timeout: float,
) -> None:
    """Plan and run, with live progress. Exits with 1 when a dataset failed or was skipped."""
    from delta_pipelines.terminal.run import run_in_terminal

    well = run_in_terminal(
        load_pipeline(target),
        session(place),
        console,
        refresh=refresh or None,
        full_refresh=full_refresh,
        full_refresh_all=full_refresh_all,
        reset_checkpoints=reset_checkpoints,
        force=force,
        lease_timeout=lease_timeout,
    )
    if not well:
        sys.exit(1)


@cli.command()
@target_argument
@click.argument("dataset")
@session_options
@click.option("--limit", default=10, show_default=True, help="How many commits.")
def history(target: str, dataset: str, place: SessionOptions, limit: int) -> None:
    """Show a table's last commits: what they did, how many rows, which run."""
    from delta_pipelines.terminal.history import history_table

    found = load_pipeline(target).graph().find(dataset)
    console.print(history_table(session(place), found.identifier, limit))


@cli.command()
@target_argument
@session_options
@click.option("--dataset", "datasets", multiple=True, metavar="NAME", help="Only these tables.")
@lease_timeout_option
def maintain(
    target: str, place: SessionOptions, datasets: tuple[str, ...], lease_timeout: float
) -> None:
    """Compact tables and delete old files (OPTIMIZE, VACUUM). Exits with 1 when a table failed.

    The table properties `pipelines.maintenance.optimize`, `.purge` and `.vacuum` say what a table
    gets; `delta.deletedFileRetentionDuration` says how long old files stay (a week by default).
    """
    from delta_pipelines.maintenance.run import Maintenance
    from delta_pipelines.maintenance.selection import tables_to_maintain

    pipeline = load_pipeline(target)
    tables = tables_to_maintain(pipeline.graph(), datasets or None)
    maintenance = Maintenance(session(place), pipeline.name, tables, lease_timeout=lease_timeout)
    known = Redaction.of(os.environ)
    well = True
    for told in maintenance.results():
        style = "red" if told.status == "failed" else None
        console.print(known.text(str(told)), style=style, markup=False, soft_wrap=True)
        well = well and told.status != "failed"
    if not well:
        sys.exit(1)


@cli.command("warm-up")
def warm_up() -> None:
    """Make every later start of Spark on this machine faster.

    Fetches Delta's jars when they are missing and writes an archive of Spark's classes (about
    230 MiB) into the user's cache folder. Worth a line in a Dockerfile.
    """
    from delta_pipelines.class_archive import write_archive

    with errors.status("running a small pipeline and archiving the classes that it loads ..."):
        path = write_archive()
    console.print(f"{path} ({path.stat().st_size / 2**20:.0f} MiB)", soft_wrap=True)


def load_pipeline(target: str) -> Pipeline:
    """Import the pipeline that a TARGET names.

    Args:
        target: `package.module:variable` or `path/to/file.py:variable`.

    Raises:
        click.BadParameter: There is no such module, file or pipeline.
    """
    where, _, variable = target.rpartition(":")
    if not where:
        raise click.BadParameter(f"{target!r} is not of the form module:variable.")
    path = _file(where) if where.endswith(".py") else None
    if path is None and not all(part.isidentifier() for part in where.split(".")):
        raise click.BadParameter(f"{where!r} is neither a module nor a file that ends in .py.")
    folder, name = (path.parent, path.stem) if path is not None else (Path.cwd(), where)
    sys.path.insert(0, str(folder))
    importable = let_workers_import(folder)  # before the module, which may start Spark itself
    try:
        if path is not None and "." in name:
            module = _loaded(path)
        else:
            module = importlib.import_module(name)
            if path is not None and Path(getattr(module, "__file__", None) or "").resolve() != path:
                module = _loaded(path)
            elif path is not None and not importable:
                _send_whole(module)
    except ModuleNotFoundError as error:
        raise _not_imported(f"cannot import {where}: {error}.") from error
    except PipelineError:
        raise
    except Exception as error:
        raise _not_imported(f"{where} {_failed(error)}") from error
    pipeline = getattr(module, variable, None)
    if not isinstance(pipeline, Pipeline):
        named = [name for name, value in vars(module).items() if isinstance(value, Pipeline)]
        hint = f" It has: {', '.join(named)}." if named else ""
        raise click.BadParameter(f"{where} has no pipeline {variable!r}.{hint}")
    return pipeline


def _not_imported(told: str) -> click.BadParameter:
    # The module may have loaded credentials into the environment before it failed.
    return click.BadParameter(Redaction.of(os.environ).text(told))


def _failed(error: Exception) -> str:
    """What a module raised while it was imported, and where, in one line."""
    if isinstance(error, SyntaxError):
        place = f"{error.filename}:{error.lineno}"
        return f"is no Python: {error.msg} ({place})."
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"raised {type(error).__name__}: {error} ({last.filename}:{last.lineno})."


def _file(where: str) -> Path:
    try:
        path = Path(where).resolve()
        if path.is_file():
            return path
    except (OSError, ValueError):  # no file can have such a name
        pass
    raise click.BadParameter(f"there is no file {where!r}.")


class _WithoutCredentials(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        # Asked anew: the pipeline's module may have loaded credentials into the environment.
        return Redaction.of(os.environ).text(super().format(record))


def _loaded(path: Path) -> ModuleType:
    """A file whose name is another module's (`calendar.py`) or no module's (`my.shop.py`)."""
    name = f"{path.stem.replace('.', '_')}_{uuid.uuid4().hex}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise click.BadParameter(f"{path} cannot be imported.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    _send_whole(module)
    spec.loader.exec_module(module)
    return module


def _send_whole(module: ModuleType) -> None:
    """Let functions travel as code, where Spark's workers cannot import their module by name."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def session(place: SessionOptions) -> "SparkSession":
    """The session on a warehouse, with a line that says so while it starts."""
    from delta_pipelines.session import get_session

    with errors.status(f"starting Spark on {place.warehouse} ..."):
        return get_session(place.warehouse, catalog=place.catalog, lock_timeout=place.lock_timeout)


def main() -> None:
    """The console script: one sentence for an expected error, 130 for Ctrl-C."""
    try:
        # On its own, click answers Ctrl-C with "Aborted!" and 1.
        cli(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except PipelineError as error:
        told = Redaction.of(os.environ).text(str(error))
        errors.print(told, style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(1)
    except (click.Abort, KeyboardInterrupt):
        errors.print("interrupted; tables that were not committed are as before.", style="yellow")
        sys.exit(130)
