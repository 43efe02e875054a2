"""The options that several commands share."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps

import click

from delta_pipelines.flows.lease_record import LEASE_TIMEOUT
from delta_pipelines.session import LOCK_TIMEOUT

Command = Callable[..., None]


@dataclass(frozen=True)
class SessionOptions:
    """What a user says of the session that a command needs.

    Args:
        warehouse: Folder of tables and catalog.
        catalog: Address of a PostgreSQL catalog; None for the embedded one.
        lock_timeout: Seconds to wait for the embedded catalog at most.
    """

    warehouse: str
    catalog: str | None
    lock_timeout: float


_warehouse = click.option(
    "--warehouse", default="./warehouse", show_default=True, help="Folder of tables and catalog."
)
_catalog = click.option(
    "--catalog",
    envvar="DELTA_PIPELINES_CATALOG",
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
        *, warehouse: str, catalog: str | None, lock_timeout: float, **others: object
    ) -> None:
        command(place=SessionOptions(warehouse, catalog, lock_timeout), **others)

    return _warehouse(_catalog(_lock_timeout(gathered)))
