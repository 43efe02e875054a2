"""Reasons to run a merge with Delta's own MERGE: features that our executors do not support."""

from delta_pipelines.delta.jvm.bridge import JavaObject, items, optional
from delta_pipelines.delta.merge.clause_plan import deletes_alone
from delta_pipelines.delta.merge.internal_columns import OWN_COLUMNS
from delta_pipelines.delta.merge.resolved_merge import MergePlan
from delta_pipelines.model.setting_names import APPEND_ONLY

_KNOWN_FEATURES = frozenset(
    {
        *("appendOnly", "invariants", "checkConstraints", "changeDataFeed", "columnMapping"),
        *("deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"),
        *("domainMetadata", "rowTracking", "inCommitTimestamp", "clustering", "generatedColumns"),
        *("identityColumns", "allowColumnDefaults", "typeWidening"),
    }
)
"""Features that do not change how files are written and rows are deleted, or that have their own
obstacle. For a table with any other feature, Delta's own MERGE runs."""


def obstacles(plan: MergePlan) -> list[str]:
    """List why only Delta's own MERGE may run a merge, as parts of sentences; empty if any may."""
    command, target = plan.command, plan.target
    settings, schema = target.settings, target.metadata.schema()
    fields = str(target.metadata.schemaString())
    names = target.protocol.readerAndWriterFeatureNames()
    features = {str(name) for name in items(names.toSeq())}
    found = []
    migrated = optional(command.migratedSchema())
    same = migrated is None or migrated.catalogString() == schema.catalogString()
    if command.schemaEvolutionEnabled() or not same:
        found.append("it may change the schema")
    feeds = target.keeps_change_feed
    if feeds and deletes_alone(plan.matched) and not target.writes_deletion_vectors:
        found.append("a row that it deletes twice would be in the change data feed twice")
    if feeds and not all(e.deterministic() for e in plan.expressions()):
        found.append("non-deterministic values would differ in the change data feed")
    if settings.get("delta.enableRowTracking", "").lower() == "true":
        found.append("the table tracks rows")
    if settings.get(APPEND_ONLY, "").lower() == "true":
        found.append("the table is append-only")
    for key, kind in {
        "delta.identity": "identity",
        "__CHAR_VARCHAR_TYPE_STRING": "CHAR or VARCHAR",
    }.items():
        if f'"{key}' in fields:
            found.append(f"the table has {kind} columns")
    unknown = sorted(features - _KNOWN_FEATURES)
    if unknown:
        found.append(f"the table has the features {', '.join(unknown)}")
    if not all(map(_is_boolean, _conditions(command))):
        found.append("a clause's condition is not a boolean")
    columns = f"{schema.catalogString()} {command.source().schema().catalogString()}".lower()
    taken = [name for name in OWN_COLUMNS if f"{name}:" in columns]
    if taken:
        found.append(f"a column has a name that the executors need: {', '.join(taken)}")
    if not plan.has_equal_keys:
        found.append("ON contains no equality")
    return found


def _conditions(command: JavaObject) -> list[JavaObject]:
    kinds = (
        command.matchedClauses(),
        command.notMatchedClauses(),
        command.notMatchedBySourceClauses(),
    )
    found = [optional(clause.condition()) for clauses in kinds for clause in items(clauses)]
    return [condition for condition in found if condition is not None]


def _is_boolean(condition: JavaObject) -> bool:
    return str(condition.dataType().catalogString()) == "boolean"
