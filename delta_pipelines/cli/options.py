"""The options that several commands share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path

import click

from delta_pipelines.cli.console import Credentials
from delta_pipelines.errors import MAX_LISTED, SessionError
from delta_pipelines.planning.refresh_request import RefreshRequest
from delta_pipelines.session.config import derby_database, spark_config, warehouse_location
from delta_pipelines.session.session import LOCK_TIMEOUT
from delta_pipelines.update.lease_record import LEASE_TIMEOUT

Command = Callable[..., None]


@dataclass(frozen=True)
class SessionOptions:
    """The user's options for the session of a command.

    Args:
        warehouse: Folder of tables and catalog.
        catalog: Address of a PostgreSQL catalog; None for the embedded one.
        lock_timeout: Maximum wait for the embedded catalog, in seconds.
        settings: Further Spark settings; may contain credentials.
        must_exist: True for a command that creates no warehouse.
    """

    warehouse: str
    catalog: str | None
    lock_timeout: float
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    must_exist: bool = False

    def of_an_existing_warehouse(self) -> "SessionOptions":
        """Return the same options, for a command that creates no warehouse."""
        return replace(self, must_exist=True)


def settings_from(texts: Sequence[str]) -> dict[str, str]:
    """Parse Spark settings written as KEY=VALUE; the last value of a key wins.

    Raises:
        click.BadParameter: A string has no `=`, or no key before it. The message quotes no part
            of the string, which may be a credential.

    Example:
        >>> settings_from(["spark.sql.session.timeZone=UTC", "spark.driver.extraJavaOptions=-Da=b"])
        {'spark.sql.session.timeZone': 'UTC', 'spark.driver.extraJavaOptions': '-Da=b'}
    """
    settings = {}
    for number, text in enumerate(texts, start=1):
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            lacks = "no key before its `=`" if separator else "no `=`"
            raise click.BadParameter(
                f"setting {number} of {len(texts)} has {lacks}; write KEY=VALUE, such as "
                "spark.sql.session.timeZone=UTC."
            )
        settings[key.strip()] = value
    return settings


_warehouse = click.option(
    "--warehouse",
    envvar="DELTA_PIPELINES_WAREHOUSE",
    show_envvar=True,
    default="./warehouse",
    show_default=True,
    help="Folder of tables and catalog.",
)
_catalog = click.option(
    "--catalog",
    envvar="DELTA_PIPELINES_CATALOG",
    show_envvar=True,
    metavar="URL",
    help="PostgreSQL database to keep the catalog in: postgresql://user@host:port/database. Leave "
    "the password to the environment variable DELTA_PIPELINES_CATALOG_PASSWORD.",
)
_lock_timeout = click.option(
    "--lock-timeout",
    type=click.FloatRange(min=0),
    default=LOCK_TIMEOUT,
    show_default=True,
    metavar="SECONDS",
    help="Maximum wait for another process that uses the embedded catalog; 0 tries once, inf "
    "waits forever.",
)
_settings = click.option(
    "--conf",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    callback=lambda context, parameter, given: settings_from(given),
    help="A Spark setting, as in `spark_config` of the Dagster resource; repeatable.",
)
lease_timeout_option = click.option(
    "--lease-timeout",
    type=click.FloatRange(min=0),
    default=LEASE_TIMEOUT,
    show_default=True,
    metavar="SECONDS",
    help="Maximum wait of a table for another run that is writing to it.",
)
details_option = click.option(
    "--details",
    is_flag=True,
    help="Show all details of every dataset. Without this option, a report on more than "
    f"{MAX_LISTED} datasets only counts the unchanged and skipped ones.",
)
_force = click.option(
    "--force",
    is_flag=True,
    help="Also refresh datasets (and partitions) of which the definition, inputs and settings have "
    "not changed.",
)
_strict = click.option(
    "--strict", is_flag=True, help="Run nothing at all when a dataset cannot be planned."
)
_full_refresh = click.option(
    "--full-refresh", multiple=True, metavar="NAME", help="Wipe and recompute; repeatable."
)
_full_refresh_all = click.option(
    "--full-refresh-all", is_flag=True, help="Refresh every selected dataset fully."
)
_reset_checkpoint = click.option(
    "--reset-checkpoint",
    "reset_checkpoints",
    multiple=True,
    metavar="NAME",
    help="Append flow (or table, for all of its flows) that reads its stream from the beginning "
    "again; the rows stay; repeatable.",
)
_refresh = click.option(
    "--refresh", multiple=True, metavar="NAME", help="Only these datasets; repeatable."
)

_partitions = click.option(
    "--partitions",
    multiple=True,
    metavar="KEYS",
    help="Only these partitions: a key, or a range such as 2024-01-01..2024-01-31; repeatable.",
)


def session_options(command: Command) -> Command:
    """Add the options of a session to a command, which gets them as one argument, `options`."""

    @wraps(command)
    def gathered(
        *,
        warehouse: str,
        catalog: str | None,
        lock_timeout: float,
        settings: Mapping[str, str],
        **others: object,
    ) -> None:
        click.get_current_context().ensure_object(Credentials).know(settings)
        command(options=SessionOptions(warehouse, catalog, lock_timeout, settings), **others)

    return _warehouse(_catalog(_settings(_lock_timeout(gathered))))


def refresh_options(command: Command) -> Command:
    """Add the options that select datasets to a command; it gets one argument, `request`."""

    @wraps(command)
    def gathered(
        *,
        refresh: tuple[str, ...],
        full_refresh: tuple[str, ...],
        full_refresh_all: bool,
        reset_checkpoints: tuple[str, ...],
        force: bool,
        strict: bool,
        partitions: tuple[str, ...],
        **others: object,
    ) -> None:
        request = RefreshRequest(
            refresh=refresh or None,
            full_refresh=full_refresh,
            full_refresh_all=full_refresh_all,
            reset_checkpoints=reset_checkpoints,
            force=force,
            strict=strict,
            partitions=partitions,
        )
        command(request=request, **others)

    options = (
        *(_refresh, _partitions, _full_refresh, _full_refresh_all, _reset_checkpoint),
        *(_force, _strict),
    )
    for option in reversed(options):
        gathered = option(gathered)
    return gathered


def new_warehouse(options: SessionOptions) -> Path | None:
    """Find the folder in which a session would create a warehouse with an embedded catalog.

    Returns:
        The absolute folder; None when the warehouse exists, or when the catalog is on a server:
        only the server knows whether there are tables.

    Raises:
        SessionError: The folder cannot hold a warehouse; or there is no warehouse, and the
            command creates none.
    """
    if options.catalog is not None:
        return None
    database = derby_database(spark_config(options.warehouse, extra=options.settings))
    if database is None or database.exists():
        return None
    location = warehouse_location(options.warehouse)
    if options.must_exist:
        raise SessionError(
            f"There is no warehouse in {location}: nothing was ever run there. Pass the folder "
            "that the runs use (`--warehouse`), and their catalog if it is on PostgreSQL "
            "(`--catalog`)."
        )
    return Path(location)
