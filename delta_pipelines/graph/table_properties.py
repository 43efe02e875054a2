"""Table properties that this framework reads: `pipelines.*`."""

from collections.abc import Mapping

from delta_pipelines.graph.delta_property_names import delta_spelling
from delta_pipelines.graph.suggestions import suggestion
from delta_pipelines.security.redaction import is_credential

RESET_ALLOWED = "pipelines.reset.allowed"
OPTIMIZE = "pipelines.maintenance.optimize"
PURGE = "pipelines.maintenance.purge"
VACUUM = "pipelines.maintenance.vacuum"
KNOWN_PIPELINE_PROPERTIES = (RESET_ALLOWED, OPTIMIZE, PURGE, VACUUM)
"""Each is 'true' or 'false'; letter case does not count, neither in the name nor in the value."""
_BOOLEANS = ("true", "false")
_BLANKS = " \t\r\n"
RESERVED_PREFIX = "delta_pipelines."
"""Prefix of the properties that the engine sets on its tables."""
ARGUMENTS = ("comment", "location", "owner", "provider")
"""Not table properties in Spark (`TableCatalog`, reserved properties)."""


def canonical_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Declared properties with `pipelines.*` and Delta's properties in their canonical spelling.

    A table shows Delta's spelling: another spelling would be a change with every refresh. A
    property with two spellings is left as it is, and `property_problems` reports it.

    Example:
        >>> canonical_properties({"Pipelines.Reset.Allowed": "FALSE", "Quality": "Gold"})
        {'pipelines.reset.allowed': 'false', 'Quality': 'Gold'}
    """
    repeated = _spelt_twice(properties)
    canonical = {}
    for key, value in properties.items():
        name = _spelling(key)
        if name in repeated:
            canonical[key] = value
        elif name in KNOWN_PIPELINE_PROPERTIES and value.lower() in _BOOLEANS:
            canonical[name] = value.lower()
        else:
            canonical[name] = value
    return canonical


def protecting(properties: Mapping[str, str]) -> dict[str, str]:
    """The entries of `pipelines.reset.allowed` that protect a table from a full refresh.

    Every value but `true` protects: a misspelt protection must not cost rows. Only this function
    reads the property.

    Args:
        properties: Of a declaration, or of a table, where any writer may have set them.

    Returns:
        Name as written -> value; empty when a full refresh is allowed.

    Example:
        >>> protecting({"Pipelines.Reset.Allowed": "no"})
        {'Pipelines.Reset.Allowed': 'no'}
        >>> protecting({"pipelines.reset.allowed": " TRUE"}), protecting({})
        ({}, {})
    """
    return {
        key: value
        for key, value in properties.items()
        if key.strip().lower() == RESET_ALLOWED and value.strip(_BLANKS).lower() != "true"
    }


def flag(properties: Mapping[str, str], key: str, *, default: bool) -> bool:
    """A known `pipelines.*` property; every value but `true` switches it off.

    Args:
        properties: Of a declaration, or of a table, where any writer may have set them.
        key: One of `KNOWN_PIPELINE_PROPERTIES`, but not `RESET_ALLOWED` (see `protecting`).
        default: When it is not set.

    Example:
        >>> flag({"PIPELINES.MAINTENANCE.VACUUM": "False"}, VACUUM, default=True)
        False
    """
    found = [v.strip(_BLANKS).lower() for k, v in properties.items() if k.strip().lower() == key]
    return all(value == "true" for value in found) if found else default


def property_problems(properties: Mapping[str, str]) -> list[str]:
    """Check declared table properties; return the problems, as sentences.

    Example:
        >>> property_problems({"pipelines.reset.allowd": "false"})
        ["there is no property 'pipelines.reset.allowd'; did you mean 'pipelines.reset.allowed'?"]
    """
    problems = [
        f"property {key!r} is given more than once: {', '.join(map(repr, spellings))}; keep one."
        for key, spellings in _spelt_twice(properties).items()
    ]
    for key, value in properties.items():
        lowered = key.lower()
        is_known = lowered in KNOWN_PIPELINE_PROPERTIES
        if lowered.startswith("pipelines.") and not is_known:
            hint = suggestion(key, KNOWN_PIPELINE_PROPERTIES)
            problems.append(f"there is no property {key!r}{hint}")
        elif f"pipelines.{lowered}" in KNOWN_PIPELINE_PROPERTIES:
            problems.append(f"property {key!r} has no effect; write 'pipelines.{lowered}'.")
        elif lowered.startswith(RESERVED_PREFIX):
            problems.append(
                f"property {key!r} is reserved: the engine writes `{RESERVED_PREFIX}*`."
            )
        elif lowered in ARGUMENTS:
            problems.append(
                f"property {key!r} is not a table property; set the comment by comment=."
                if lowered == "comment"
                else f"property {key!r} is not a table property."
            )
        elif is_known and value.lower() not in _BOOLEANS:
            problems.append(f"property {key!r} must be 'true' or 'false', not {value!r}.")
        elif is_credential(key, value):
            problems.append(
                f"property {key!r} looks like a credential, and every reader of a table can see "
                f"its properties: put it into the session's settings or into spark_conf."
            )
        elif not key or "\n" in key or "\x00" in key + value:
            problems.append(f"property {key!r} has a name or value that no catalog can store.")
    return problems


def view_property_problems(properties: Mapping[str, str]) -> list[str]:
    """Check the declared properties of a persisted view for names that only views reserve.

    Example:
        >>> view_property_problems({"view.team": "bi"})
        ["property 'view.team' is reserved: Spark stores its own view properties as `view.*`."]
    """
    prefixes = ("view.", "spark.sql.")
    return [
        f"property {key!r} is reserved: Spark stores its own view properties as `{prefix}*`."
        for key in properties
        for prefix in prefixes
        if key.startswith(prefix)
    ]


def _spelt_twice(properties: Mapping[str, str]) -> dict[str, list[str]]:
    """Canonical name -> spellings, for properties that are declared in several spellings."""
    spellings: dict[str, list[str]] = {}
    for key in properties:
        spellings.setdefault(_spelling(key), []).append(key)
    return {key: spelt for key, spelt in spellings.items() if len(spelt) > 1}


def _spelling(key: str) -> str:
    lowered = key.lower()
    return lowered if lowered in KNOWN_PIPELINE_PROPERTIES else delta_spelling(key)
