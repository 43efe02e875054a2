"""The `delta-pipelines` command: validate, plan, run and look at the history, without Dagster."""

import io
import json
import logging
import sys
from typing import TYPE_CHECKING

import click
from rich.markup import escape
from rich.table import Table

from delta_pipelines.cli.console import Credentials, console_on
from delta_pipelines.cli.options import (
    SessionOptions,
    force_option,
    full_refresh_all_option,
    full_refresh_option,
    lease_timeout_option,
    refresh_option,
    reset_checkpoint_option,
    session_options,
    strict_option,
)
from delta_pipelines.cli.target import load_pipeline
from delta_pipelines.errors import DatasetError, PipelineError, SessionError
from delta_pipelines.pipeline import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

console = console_on()
errors = console_on(stderr=True)

target_argument = click.argument("target")


@click.group()
@click.option("-v", "--verbose", is_flag=True, help="Show the engine's log lines.")
@click.version_option(package_name="delta-pipelines")
@click.pass_context
def cli(context: click.Context, verbose: bool) -> None:
    """Run delta_pipelines without Dagster.

    TARGET is a pipeline: `package.module:variable` or `path/to/file.py:variable`.
    """
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING)
    known = context.ensure_object(Credentials)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(_WithoutCredentials(known))


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
@strict_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plan(
    target: str,
    place: SessionOptions,
    refresh: tuple[str, ...],
    full_refresh: tuple[str, ...],
    full_refresh_all: bool,
    reset_checkpoints: tuple[str, ...],
    force: bool,
    strict: bool,
    as_json: bool,
) -> None:
    """Show what a run would do; changes nothing. Exits with 1 when something cannot be planned.

    Where no warehouse is yet, an empty one is made.
    """
    from delta_pipelines.cli.plan_view import plan_text, strict_refusal

    pipeline = load_pipeline(target)
    check_names(pipeline, refresh, full_refresh, reset_checkpoints)
    made = pipeline.plan(
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
        if strict:
            errors.print(strict_refusal(made), style="red")
        sys.exit(1)


@cli.command()
@target_argument
@session_options
@refresh_option
@full_refresh_option
@full_refresh_all_option
@reset_checkpoint_option
@force_option
@strict_option
@lease_timeout_option
def run(
    target: str,
    place: SessionOptions,
    refresh: tuple[str, ...],
    full_refresh: tuple[str, ...],
    full_refresh_all: bool,
    reset_checkpoints: tuple[str, ...],
    force: bool,
    strict: bool,
    lease_timeout: float,
) -> None:
    """Plan and run, with live progress. Exits with 1 when a dataset failed or was skipped."""
    from delta_pipelines.cli.run_view import run_in_terminal

    pipeline = load_pipeline(target)
    check_names(pipeline, refresh, full_refresh, reset_checkpoints)
    well = run_in_terminal(
        pipeline,
        session(place),
        console,
        refresh=refresh or None,
        full_refresh=full_refresh,
        full_refresh_all=full_refresh_all,
        reset_checkpoints=reset_checkpoints,
        force=force,
        strict=strict,
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
    from delta_pipelines.cli.history_table import history_table

    graph = load_pipeline(target).graph()
    found = graph.find(dataset)
    if found.kind == "view":
        read = ", ".join(str(dataset) for dataset in graph.flow(found.identifier).inputs.values())
        raise DatasetError(
            "a view has no commits of its own" + (f"; it reads {read}." if read else "."),
            dataset=found.name,
        )
    spark = session(place.of_an_existing_warehouse())
    console.print(history_table(spark, found.identifier, limit))


@cli.command()
@target_argument
@session_options
@click.option("--dataset", "datasets", multiple=True, metavar="NAME", help="Only these tables.")
@lease_timeout_option
@click.pass_obj
def maintain(
    known: Credentials,
    target: str,
    place: SessionOptions,
    datasets: tuple[str, ...],
    lease_timeout: float,
) -> None:
    """Compact tables and delete old files (OPTIMIZE, VACUUM). Exits with 1 when a table failed.

    The table properties `pipelines.maintenance.optimize`, `.purge` and `.vacuum` say what a table
    gets; `delta.deletedFileRetentionDuration` says how long old files stay (a week by default).
    """
    from delta_pipelines.maintenance.run import Maintenance
    from delta_pipelines.maintenance.selection import tables_to_maintain

    pipeline = load_pipeline(target)
    tables = tables_to_maintain(pipeline.graph(), datasets or None)
    spark = session(place.of_an_existing_warehouse())
    maintenance = Maintenance(spark, pipeline.name, tables, lease_timeout=lease_timeout)
    well = True
    for result in maintenance.results():
        style = "red" if result.status == "failed" else None
        told = known.redaction.text(str(result))
        console.print(told, style=style, markup=False, soft_wrap=True)
        well = well and result.status != "failed"
    if not well:
        sys.exit(1)


@cli.command()
@session_options
def relocate(place: SessionOptions) -> None:
    """Repair the embedded catalog of a warehouse that was moved or copied.

    Its catalog names the tables where they were; afterwards it names them where they are now.
    """
    from delta_pipelines.session.relocation import relocate_warehouse

    if place.catalog is not None:
        raise SessionError("`relocate` repairs an embedded catalog: leave out `--catalog`.")
    with errors.status("starting Spark ..."):
        changed = relocate_warehouse(
            place.warehouse, config=place.settings, lock_timeout=place.lock_timeout
        )
    console.print(f"{changed} locations changed." if changed else "Nothing to change.")


@cli.command("warm-up")
def warm_up() -> None:
    """Make every later start of Spark on this machine faster.

    Fetches Delta's jars when they are missing and writes an archive of Spark's classes (about
    230 MiB) into the user's cache folder. Worth a line in a Dockerfile.
    """
    from delta_pipelines.session.class_archive import write_archive

    with errors.status("running a small pipeline and archiving the classes that it loads ..."):
        path = write_archive()
    console.print(f"{path} ({path.stat().st_size / 2**20:.0f} MiB)", soft_wrap=True)


class _WithoutCredentials(logging.Formatter):
    def __init__(self, known: Credentials | None = None) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")
        self._known = known or Credentials()

    def format(self, record: logging.LogRecord) -> str:
        return self._known.redaction.text(super().format(record))


def check_names(
    pipeline: Pipeline,
    refresh: tuple[str, ...],
    full_refresh: tuple[str, ...],
    reset_checkpoints: tuple[str, ...],
) -> None:
    """Check the declarations, and the names that are selected of them, before Spark starts.

    Raises:
        UnknownDatasetError: A name matches no dataset; the nearest one is suggested.
        DeclarationError: The graph has problems, or a name is of something without a checkpoint.
    """
    from delta_pipelines.planning.selection import Selection, refresh_set

    # As if all were refreshed: what a full refresh may not touch is logged by the plan itself.
    names = Selection.of([*refresh, *full_refresh], (), False, reset_checkpoints)
    refresh_set(pipeline.graph(), names)


def session(place: SessionOptions) -> "SparkSession":
    """The session on a warehouse, with a line that says so while it starts.

    Raises:
        SessionError: No warehouse is there, and the command makes none; and as `get_session`.
    """
    from delta_pipelines.cli.options import new_warehouse
    from delta_pipelines.session.session import get_session
    from delta_pipelines.system.postgres_catalog import PostgresCatalog

    new = new_warehouse(place)
    if new is not None:
        told = f"note: {new} is a new warehouse."
        errors.print(told, style="yellow", markup=False, highlight=False, soft_wrap=True)
    where = place.warehouse
    if place.catalog is not None:
        where += f", with the catalog {PostgresCatalog.of(place.catalog).url}"
    with errors.status(f"starting Spark on {escape(where)} ..."):
        return get_session(
            place.warehouse,
            catalog=place.catalog,
            config=place.settings,
            lock_timeout=place.lock_timeout,
        )


def main() -> None:
    """The console script: one sentence for an expected error, 130 for Ctrl-C."""
    known = Credentials()
    try:
        # On its own, click answers Ctrl-C with "Aborted!" and 1.
        cli(standalone_mode=False, obj=known)
    except click.ClickException as error:
        # It repeats the words that it does not understand, such as a setting without its `--conf`.
        shown = io.StringIO()
        error.show(file=shown)
        click.echo(known.redaction.text(shown.getvalue()), err=True, nl=False)
        sys.exit(error.exit_code)
    except PipelineError as error:
        told = known.redaction.text(str(error))
        errors.print(told, style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(1)
    except (click.Abort, KeyboardInterrupt):
        errors.print("interrupted; tables that were not committed are as before.", style="yellow")
        sys.exit(130)
    except Exception as error:
        told_error = known.redaction.anybodys(error)
        if told_error is error and error.__traceback__ is not None:
            raise
        raise told_error from told_error.__cause__
