"""A PostgreSQL database as the catalog's store, which several processes can share."""

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Union
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from delta_pipelines.errors import SessionError
from delta_pipelines.system.jars import Jar, JarSet

DRIVER = "org.postgresql.Driver"
DRIVER_JAR = Jar("org.postgresql", "postgresql", "42.7.4")
# Excluded: annotations for the driver's compilation, which are never loaded.
DRIVER_JARS = JarSet((DRIVER_JAR,), excludes=("org.checkerframework:checker-qual",))
PASSWORD_VARIABLES = ("DELTA_PIPELINES_CATALOG_PASSWORD", "PGPASSWORD")
"""Environment variables for the password, in the order of precedence."""
CONNECT_SECONDS = 10
"""Timeout of a connection, in seconds."""

_OPTION = "spark.hadoop.javax.jdo.option"
_FORM = "postgresql://user@host:port/database"
_OURS = frozenset({"user", "password", "connecttimeout", "passfile", "sslpassword"})


class CatalogServerError(SessionError):
    """The catalog's server cannot be used.

    Args:
        message: A full sentence: what happened and what to do.
        transient: True when the same call can succeed later.

    Example:
        >>> CatalogServerError("the catalog's server does not answer.", transient=True).transient
        True
    """

    def __init__(self, message: str, *, transient: bool = False) -> None:
        self.transient = transient
        super().__init__(message)


@dataclass(frozen=True)
class PostgresCatalog:
    """The address and login of the catalog's PostgreSQL database.

    The database must exist and the user must be allowed to create tables in it; the first session
    creates the catalog's own tables.

    Args:
        host: Host name or address.
        database: Name of the database; it holds one catalog.
        user: Its owner.
        password: Never part of a log line or message. When None, the environment variable
            `DELTA_PIPELINES_CATALOG_PASSWORD`, else `PGPASSWORD`, else no password.
        port: Port of the server.
        options: Further settings of the JDBC driver, such as `{"sslmode": "verify-full"}`.

    Example:
        >>> PostgresCatalog("db.example.com", "metastore", "etl").url
        'postgresql://etl@db.example.com:5432/metastore'
    """

    host: str
    database: str
    user: str
    password: str | None = field(default=None, repr=False)
    port: int = 5432
    options: Mapping[str, str] = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, catalog: "Catalog") -> "PostgresCatalog":
        """Return a `PostgresCatalog` as it is, or parse it from its address.

        Args:
            catalog: A value, or `postgresql://user[:password]@host[:port]/database[?options]`,
                with special characters escaped as in every URL (`%40` for `@`).

        Raises:
            SessionError: The text is not such an address; the message quotes no part of it.

        Example:
            >>> PostgresCatalog.of("postgresql://etl@localhost/metastore?sslmode=disable").port
            5432
        """
        if isinstance(catalog, PostgresCatalog):
            return catalog
        try:
            parts = urlsplit(catalog)
            port = parts.port or 5432
        except ValueError:
            raise SessionError(_malformed("its host or port cannot be read")) from None
        database = unquote(parts.path.removeprefix("/"))
        if parts.scheme not in ("postgresql", "postgres"):
            raise SessionError(_malformed("it does not begin with postgresql://"))
        for name, part in (("host", parts.hostname), ("user", parts.username)):
            if not part:
                raise SessionError(_malformed(f"it has no {name}"))
        if not database or "/" in database or parts.fragment:
            raise SessionError(_malformed("it has no database, or more than one"))
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        if bad := sorted(name for name in options if name.lower() in _OURS):
            raise SessionError(_malformed(f"its option {bad[0]} is not allowed"))
        return cls(
            host=parts.hostname or "",
            database=database,
            user=unquote(parts.username or ""),
            password=unquote(parts.password) if parts.password is not None else None,
            port=port,
            options=options,
        )

    @property
    def url(self) -> str:
        """The address without the password, for logs."""
        return f"postgresql://{self.user}@{self.server_host}:{self.port}/{self.database}"

    @property
    def jdbc_url(self) -> str:
        """The address for the JDBC driver, without user and password."""
        options = urlencode({"connectTimeout": str(CONNECT_SECONDS), **self.options})
        database = urlencode({"d": self.database}).removeprefix("d=").replace("+", "%20")
        return f"jdbc:postgresql://{self.server_host}:{self.port}/{database}?{options}"

    def secret(self, environment: Mapping[str, str] | None = None) -> str | None:
        """The password: the catalog's own, else that of the environment, else None.

        Args:
            environment: Environment variables; those of this process when None.
        """
        if self.password is not None:
            return self.password
        variables = os.environ if environment is None else environment
        found = (variables.get(name) for name in PASSWORD_VARIABLES)
        return next((password for password in found if password), None)

    def with_secret(self) -> "PostgresCatalog":
        """Return the same catalog with the password that `secret` finds."""
        return replace(self, password=self.secret())

    def settings(self) -> dict[str, str]:
        """Spark's settings for this catalog, without the password.

        Spark's settings are part of the JVM's command line, which every user of the machine can
        read; so the password is passed once the JVM runs.
        """
        return {
            f"{_OPTION}.ConnectionURL": self.jdbc_url,
            f"{_OPTION}.ConnectionDriverName": DRIVER,
            f"{_OPTION}.ConnectionUserName": self.user,
            # This package creates the schema and writes the version that Hive would verify.
            "spark.hadoop.hive.metastore.schema.verification": "false",
        }

    @property
    def server_host(self) -> str:
        """The host as part of an address: an IPv6 address is in brackets."""
        return f"[{self.host}]" if ":" in self.host else self.host


Catalog = Union[str, PostgresCatalog]  # noqa: UP007 - pydantic and Dagster read it on Python 3.10
"""What `get_session(catalog=...)` takes: a PostgreSQL address or a `PostgresCatalog`."""


def check_reachable(catalog: PostgresCatalog) -> None:
    """Open and close a connection, to report an unreachable server before Spark starts.

    Raises:
        CatalogServerError: No server answers at the host and port; transient.
    """
    try:
        socket.create_connection((catalog.host, catalog.port), CONNECT_SECONDS).close()
    except OSError as error:
        why = error.strerror or str(error) or type(error).__name__
        raise CatalogServerError(
            connection_problem(catalog, "08001", why), transient=True
        ) from None


def connection_problem(catalog: PostgresCatalog, state: str | None, message: str) -> str:
    """Explain in one sentence why the connection failed, and what to do.

    Args:
        catalog: The catalog.
        state: The SQLSTATE from the driver; None without one.
        message: The driver's message.

    Example:
        >>> catalog = PostgresCatalog("localhost", "metastore", "etl")
        >>> connection_problem(catalog, "3D000", "").partition(":")[0]
        'The catalog server localhost'
    """
    server = f"{catalog.server_host}:{catalog.port}"
    said = _without_secret(catalog, message).strip().rstrip(".")
    if state in ("28P01", "28000", "08004"):
        missing = "" if catalog.secret() else " (none was given)"
        return (
            f"The catalog server {server} rejects the user {catalog.user}: check the name and the "
            f"password{missing}; the password is read from the catalog's address or from "
            f"{PASSWORD_VARIABLES[0]} ({said})."
        )
    if state == "3D000":
        return (
            f"The catalog server {server} has no database {catalog.database}: create it "
            f"(`createdb --owner {catalog.user} {catalog.database}`) or correct the name."
        )
    if state is not None and state.startswith("08"):
        return (
            f"The catalog server {server} cannot be reached ({said}): start it, or correct host "
            "and port; check the network and the server's listen_addresses."
        )
    if state == "42501":
        return (
            f"The user {catalog.user} may not create tables in the catalog's database "
            f"{catalog.database}: make it the owner, or grant CREATE on its schema ({said})."
        )
    return f"The catalog in {catalog.url} cannot be opened: {said}."


def _malformed(why: str) -> str:
    return f"The catalog's address is not of the form {_FORM}: {why}."


def _without_secret(catalog: PostgresCatalog, text: str) -> str:
    secret = catalog.secret()
    line = re.split(r"[\r\n]", text.strip(), maxsplit=1)[0]
    return line.replace(secret, "***") if secret else line
