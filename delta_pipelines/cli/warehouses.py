"""Whether the warehouse of a command is there, told before Spark starts."""

from pathlib import Path

from delta_pipelines.cli.options import SessionOptions
from delta_pipelines.errors import SessionError
from delta_pipelines.session.config import derby_database, spark_config, warehouse_location


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
