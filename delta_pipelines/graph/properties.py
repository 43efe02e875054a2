"""Table properties that this framework reads: `pipelines.*`."""

from collections.abc import Mapping

from delta_pipelines.graph.names import suggestion
from delta_pipelines.redaction import is_credential

RESET_ALLOWED = "pipelines.reset.allowed"
OPTIMIZE = "pipelines.maintenance.optimize"
PURGE = "pipelines.maintenance.purge"
VACUUM = "pipelines.maintenance.vacuum"
KNOWN_PIPELINE_PROPERTIES = (RESET_ALLOWED, OPTIMIZE, PURGE, VACUUM)
"""Each is 'true' or 'false'."""
RESERVED_PREFIX = "delta_pipelines."
"""Properties with which the engine marks the tables it owns."""
ARGUMENTS = ("comment", "location", "owner", "provider")
"""Spark keeps these beside a table's properties (Spark: `TableCatalog`, reserved properties)."""


def property_problems(properties: Mapping[str, str]) -> list[str]:
    """What is wrong with declared table properties, as sentences.

    Args:
        properties: As declared.

    Example:
        >>> property_problems({"pipelines.reset.allowd": "false"})
        ["there is no property 'pipelines.reset.allowd'; did you mean 'pipelines.reset.allowed'?"]
    """
    problems = []
    for key, value in properties.items():
        lowered = key.lower()
        if lowered.startswith("pipelines.") and key not in KNOWN_PIPELINE_PROPERTIES:
            hint = suggestion(key, KNOWN_PIPELINE_PROPERTIES)
            problems.append(f"there is no property {key!r}{hint}")
        elif f"pipelines.{lowered}" in KNOWN_PIPELINE_PROPERTIES:
            problems.append(f"property {key!r} means nothing; write 'pipelines.{lowered}'.")
        elif lowered.startswith(RESERVED_PREFIX):
            problems.append(
                f"property {key!r} is reserved: the engine writes `{RESERVED_PREFIX}*`."
            )
        elif lowered in ARGUMENTS:
            problems.append(
                f"property {key!r} is no property of a table; a comment is set by comment=."
                if lowered == "comment"
                else f"property {key!r} is no property of a table."
            )
        elif key in KNOWN_PIPELINE_PROPERTIES and value not in ("true", "false"):
            problems.append(f"property {key!r} is 'true' or 'false', not {value!r}.")
        elif is_credential(key, value):
            problems.append(
                f"property {key!r} looks like a credential, and a table's properties stand in its "
                f"log for every reader: give it in the session's settings or in spark_conf."
            )
        elif not key or "\n" in key or "\x00" in key + value:
            problems.append(f"property {key!r} has a name or value that no catalog can keep.")
    return problems
