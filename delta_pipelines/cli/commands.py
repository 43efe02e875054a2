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
    details_option,
    lease_timeout_option,
    refresh_options,
    session_options,
)
from delta_pipelines.cli.target import load_pipeline
from delta_pipelines.errors import DatasetError, PipelineError, SessionError
from delta_pipelines.graph.column_rules import declared_lines
from delta_pipelines.pipeline import Pipeline
from delta_pipelines.planning.refresh_request import RefreshRequest

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
    credentials = context.ensure_object(Credentials)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(_WithoutCredentials(credentials))


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
    for asset in graph.assets:
        for line in declared_lines(asset.declaration):
            console.print(f"{asset.identifier} {line}", markup=False, highlight=False)
    for warning in graph.warnings:
        errors.print(f"warning: {warning}", style="yellow", markup=False)
    console.print(f"{len(graph.assets)} datasets, no problems.")


@cli.command()
@target_argument
@session_options
@refresh_options
@details_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plan(
    target: str,
    options: SessionOptions,
    request: RefreshRequest,
    details: bool,
    as_json: bool,
) -> None:
    """Show what a run would do; writes no table. Exits with 1 when a dataset cannot be planned.

    If there is no warehouse yet, an empty one is created.
    """
    from delta_pipelines.cli.plan_view import plan_text, strict_refusal
    from delta_pipelines.planning.planner import make_plan

    pipeline = load_pipeline(target)
    check_names(pipeline, request)
    planned = make_plan(pipeline, session(options), request)
    if as_json:
        click.echo(json.dumps(planned.to_dict(), indent=2))
    else:
        console.print(plan_text(planned, details=details), end="", soft_wrap=True)
    if planned.errors:
        if request.strict:
            errors.print(strict_refusal(planned), style="red")
        sys.exit(1)


@cli.command()
@target_argument
@session_options
@refresh_options
@details_option
@lease_timeout_option
def run(
    target: str,
    options: SessionOptions,
    request: RefreshRequest,
    details: bool,
    lease_timeout: float,
) -> None:
    """Plan and run, with live progress. Exits with 1 when a dataset failed or was skipped."""
    from delta_pipelines.cli.run_view import run_in_terminal

    pipeline = load_pipeline(target)
    check_names(pipeline, request)
    spark = session(options)
    succeeded = run_in_terminal(
        pipeline, spark, console, request, lease_timeout=lease_timeout, details=details
    )
    if not succeeded:
        sys.exit(1)


@cli.command()
@target_argument
@click.argument("dataset")
@session_options
@click.option("--limit", default=10, show_default=True, help="How many commits.")
def history(target: str, dataset: str, options: SessionOptions, limit: int) -> None:
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
    spark = session(options.of_an_existing_warehouse())
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
    options: SessionOptions,
    datasets: tuple[str, ...],
    lease_timeout: float,
) -> None:
    """Compact tables and delete old files (OPTIMIZE, VACUUM). Exits with 1 when a table failed.

    The table properties `pipelines.maintenance.optimize`, `.purge` and `.vacuum` choose the steps
    for a table; `delta.deletedFileRetentionDuration` sets how long old files stay (a week by
    default).
    """
    from delta_pipelines.maintenance.run import Maintenance
    from delta_pipelines.maintenance.selection import tables_to_maintain

    pipeline = load_pipeline(target)
    tables = tables_to_maintain(pipeline.graph(), datasets or None)
    spark = session(options.of_an_existing_warehouse())
    maintenance = Maintenance(spark, pipeline.name, tables, lease_timeout=lease_timeout)
    succeeded = True
    for result in maintenance.results():
        style = "red" if result.status == "failed" else None
        message = known.redaction.text(str(result))
        console.print(message, style=style, markup=False, soft_wrap=True)
        succeeded = succeeded and result.status != "failed"
    if not succeeded:
        sys.exit(1)


@cli.command()
@session_options
def relocate(options: SessionOptions) -> None:
    """Repair the embedded catalog of a warehouse that was moved or copied.

    Its catalog names the tables where they were; afterwards it names them where they are now.
    """
    from delta_pipelines.session.relocation import relocate_warehouse

    if options.catalog is not None:
        raise SessionError("`relocate` repairs an embedded catalog: leave out `--catalog`.")
    with errors.status("starting Spark ..."):
        changed = relocate_warehouse(
            options.warehouse, config=options.settings, lock_timeout=options.lock_timeout
        )
    console.print(f"{changed} locations changed." if changed else "Nothing to change.")


@cli.command("warm-up")
@click.option("--s3", is_flag=True, help="Also download what a warehouse on S3 needs (13 MB).")
@click.option("--postgresql", is_flag=True, help="Also download the driver of a shared catalog.")
def warm_up(s3: bool, postgresql: bool) -> None:
    """Make every later start of Spark on this machine faster.

    Downloads Delta's jars when they are missing and writes an archive of Spark's classes (about
    230 MiB) into the user's cache folder. Worth a line in a Dockerfile.
    """
    from delta_pipelines.session.class_archive import write_archive
    from delta_pipelines.session.s3.settings import SETTINGS_FOR_DOWNLOAD
    from delta_pipelines.system.postgres_catalog import DRIVER_JAR

    config = dict(SETTINGS_FOR_DOWNLOAD) if s3 else {}
    config |= {"spark.jars.packages": DRIVER_JAR.coordinates} if postgresql else {}
    with errors.status("running a small pipeline and archiving the classes that it loads ..."):
        path = write_archive(config)
    ready = ["Delta", *(["the S3 client"] if s3 else []), *(["PostgreSQL"] if postgresql else [])]
    console.print(f"The jars are there: {', '.join(ready)}. The archive of classes:")
    console.print(f"{path} ({path.stat().st_size / 2**20:.0f} MiB)", soft_wrap=True)


class _WithoutCredentials(logging.Formatter):
    def __init__(self, known: Credentials | None = None) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")
        self._known = known or Credentials()

    def format(self, record: logging.LogRecord) -> str:
        return self._known.redaction.text(super().format(record))


def check_names(pipeline: Pipeline, request: RefreshRequest) -> None:
    """Check the declarations and the selected names before Spark starts.

    Raises:
        UnknownDatasetError: A name matches no dataset; the most similar name is suggested.
        DeclarationError: The graph has problems, or a name to reset has no checkpoint.
    """
    from delta_pipelines.planning.refresh_set import refresh_set

    refresh_set(pipeline.graph(), request)


def session(options: SessionOptions) -> "SparkSession":
    """Start the session on a warehouse, with a status line meanwhile.

    Raises:
        SessionError: There is no warehouse and the command creates none; and as `get_session`.
    """
    from delta_pipelines.cli.options import new_warehouse
    from delta_pipelines.session.session import get_session
    from delta_pipelines.system.postgres_catalog import PostgresCatalog

    new = new_warehouse(options)
    if new is not None:
        message = f"note: {new} is a new warehouse."
        errors.print(message, style="yellow", markup=False, highlight=False, soft_wrap=True)
    location = options.warehouse
    if options.catalog is not None:
        location += f", with the catalog {PostgresCatalog.of(options.catalog).url}"
    with errors.status(f"starting Spark on {escape(location)} ..."):
        return get_session(
            options.warehouse,
            catalog=options.catalog,
            config=options.settings,
            lock_timeout=options.lock_timeout,
        )


def main() -> None:
    """Run the console script: one sentence for an expected error, exit code 130 for Ctrl-C."""
    credentials = Credentials()
    try:
        # On its own, click answers Ctrl-C with "Aborted!" and 1.
        cli(standalone_mode=False, obj=credentials)
    except click.ClickException as error:
        # The message quotes unknown arguments, such as a setting whose `--conf` was forgotten.
        shown = io.StringIO()
        error.show(file=shown)
        click.echo(credentials.redaction.text(shown.getvalue()), err=True, nl=False)
        sys.exit(error.exit_code)
    except PipelineError as error:
        message = credentials.redaction.text(str(error))
        errors.print(message, style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(1)
    except (click.Abort, KeyboardInterrupt):
        errors.print("interrupted; tables without a commit are unchanged.", style="yellow")
        sys.exit(130)
    except Exception as error:
        redacted = credentials.redaction.anybodys(error)
        if redacted is error and error.__traceback__ is not None:
            raise
        raise redacted from redacted.__cause__
