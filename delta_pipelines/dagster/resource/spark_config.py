"""Flatten `spark_config` to text settings, with the values of environment variables."""

import os
from collections.abc import Mapping
from typing import Any

from delta_pipelines.errors import SessionError


def flat_settings(settings: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    """Flatten Spark settings to dotted keys with text values.

    A `dg.EnvVar`, or `{"env": "NAME"}`, becomes the current value of that environment variable.

    Args:
        settings: Flat, nested, or both.
        prefix: Prefix of every key.

    Raises:
        SessionError: An environment variable is not set; names it and the setting.

    Example:
        >>> flat_settings({"spark": {"ui": {"enabled": False}, "master": "local[2]"}})
        {'spark.ui.enabled': 'false', 'spark.master': 'local[2]'}
    """
    flat: dict[str, str] = {}
    for key, value in settings.items():
        name = f"{prefix}{key}"
        variable = _variable(value)
        if variable is not None:
            flat[name] = _value_of(variable, name)
        elif isinstance(value, Mapping):
            flat |= flat_settings(value, f"{name}.")
        else:
            flat[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return flat


def with_named_variables(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Replace each `dg.EnvVar` by `{"env": "NAME"}`, at any depth.

    Dagster does this itself, except for the defaults of `configure_at_launch`, where the name of
    the variable would become the value of the setting.

    Example:
        >>> import dagster as dg
        >>> with_named_variables({"spark": {"a": dg.EnvVar("A"), "b": 1}})
        {'spark': {'a': {'env': 'A'}, 'b': 1}}
    """
    named: dict[str, Any] = {}
    for key, value in settings.items():
        variable = _variable(value)
        if variable is not None:
            named[key] = {"env": variable}
        else:
            named[key] = with_named_variables(value) if isinstance(value, Mapping) else value
    return named


def _variable(value: object) -> str | None:
    """The name of the environment variable in a value; None if it is a plain value."""
    if isinstance(value, Mapping):
        # No Spark setting ends in `.env`; such a key could still be written flat.
        name = value.get("env") if len(value) == 1 else None
    else:
        # Not by its type, because Dagster does not export the type of `dg.EnvVar.int`.
        name = getattr(value, "env_var_name", None)
    return name if isinstance(name, str) else None


def _value_of(variable: str, setting: str) -> str:
    value = os.environ.get(variable)
    if value is None:
        raise SessionError(
            f"spark_config: {setting} uses the environment variable {variable}, which is not set: "
            "set it for the process that executes the runs, or remove the setting."
        )
    return value
