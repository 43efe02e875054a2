"""The options that several commands share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path

import click

from delta_pipelines.cli.console import Credentials
from delta_pipelines.errors import SessionError
from delta_pipelines.session.config import derby_database, spark_config, warehouse_location
from delta_pipelines.session.session import LOCK_TIMEOUT
from delta_pipelines.update.lease_record import LEASE_TIMEOUT

Command = Callable[..., None]


@dataclass(frozen=True)
class SessionOptions:
    """What a user says of the session that a command needs.

    Args:
        warehouse: Folder of tables and catalog.
        catalog: Address of a PostgreSQL catalog; None for the embedded one.
        lock_timeout: Seconds to wait for the embedded catalog at most.
        settings: Further Spark settings; credentials may be among them.
        must_exist: True for a command that has nothing to do where no warehouse is.
    """

    warehouse: str
    catalog: str | None
    lock_timeout: float
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    must_exist: bool = False

    def of_an_existing_warehouse(self) -> "SessionOptions":
        """The same options, for a command that makes no warehouse."""
        return replace(self, must_exist=True)


def settings_from(texts: Sequence[str]) -> dict[str, str]:
    """Read Spark settings that are written as KEY=VALUE; of one key the last value counts.

    Args:
        texts: As the user gave them.

    Raises:
        click.BadParameter: A text has no `=`, or no key before it. The message repeats no part of
            it, which may be a credential.

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
    help="How long to wait at most for another process that has the embedded catalog; 0 tries "
    "once, inf waits without end.",
)
_settings = click.option(
    "--conf",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    callback=lambda context, parameter, given: settings_from(given),
    help="A Spark setting, as Dagster's resource has it in `spark_config`; repeatable.",
)
lease_timeout_option = click.option(
    "--lease-timeout",
    type=click.FloatRange(min=0),
    default=LEASE_TIMEOUT,
    show_default=True,
    metavar="SECONDS",
    help="How long a table waits at most for another run that works on it.",
)
force_option = click.option(
    "--force", is_flag=True, help="Refresh also what has not changed since its last refresh."
)
strict_option = click.option(
    "--strict", is_flag=True, help="A run does nothing at all when a dataset cannot be planned."
)
full_refresh_option = click.option(
    "--full-refresh", multiple=True, metavar="NAME", help="Wipe and compute anew; repeatable."
)
full_refresh_all_option = click.option(
    "--full-refresh-all", is_flag=True, help="Refresh every selected dataset fully."
)
reset_checkpoint_option = click.option(
    "--reset-checkpoint",
    "reset_checkpoints",
    multiple=True,
    metavar="NAME",
    help="Append flow, or table for all of its flows, that reads its stream from the beginning "
    "while the rows stay; repeatable.",
)
refresh_option = click.option(
    "--refresh", multiple=True, metavar="NAME", help="Only these datasets; repeatable."
)


def session_options(command: Command) -> Command:
    """Give a command the options of its session, which it takes as one argument, `place`.

    Args:
        command: The function below `@cli.command()`.
    """

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
        command(place=SessionOptions(warehouse, catalog, lock_timeout, settings), **others)

    return _warehouse(_catalog(_settings(_lock_timeout(gathered))))


def new_warehouse(place: SessionOptions) -> Path | None:
    """Find out whether a session would make the warehouse and its embedded catalog.

    Args:
        place: Where the session is to be.

    Returns:
        The absolute folder that would be made a warehouse; None where one is, and where the
        catalog is elsewhere, which alone knows whether there are tables.

    Raises:
        SessionError: No warehouse can be there; or none is there, and the command makes none.
    """
    if place.catalog is not None:
        return None
    database = derby_database(spark_config(place.warehouse, extra=place.settings))
    if database is None or database.exists():
        return None
    location = warehouse_location(place.warehouse)
    if place.must_exist:
        raise SessionError(
            f"There is no warehouse in {location}: nothing was ever run there. Give the folder "
            "that the runs use (`--warehouse`), and their catalog if they have it on PostgreSQL "
            "(`--catalog`)."
        )
    return Path(location)
