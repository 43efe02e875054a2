"""Derive the metadata of a commit from a definition."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.types import StructType, TimestampNTZType

from delta_pipelines.errors import SchemaChangeError
from delta_pipelines.model.column_types import holds
from delta_pipelines.model.schema_mapping import (
    DEFAULT,
    GENERATED,
    Layout,
    column_named,
    mapped_schema,
    merged_schema,
)
from delta_pipelines.model.setting_names import COLUMN_MAPPING_MODE
from delta_pipelines.model.table_definition import (
    CLUSTERING_FEATURE,
    COLUMN_MAPPING_FEATURE,
    DEFAULTS_FEATURE,
    GENERATED_FEATURE,
    TIMESTAMP_NTZ_FEATURE,
    TableDefinition,
    check_definition,
    is_protocol,
    merged_configuration,
    needs_column_mapping,
)


@dataclass(frozen=True)
class WantedMetadata:
    """Metadata that the transaction will write.

    Args:
        schema: Schema with column mapping ids.
        partition_columns: In order.
        cluster_columns: In order, nested ones as dotted paths.
        configuration: All properties, including those of this package.
        comment: None without a comment.
    """

    schema: StructType
    partition_columns: tuple[str, ...]
    cluster_columns: tuple[str, ...]
    configuration: Mapping[str, str]
    comment: str | None

    @property
    def column_mapping(self) -> bool:
        """True if columns are found by physical name."""
        return _mode(self.configuration) != "none"

    @property
    def layout(self) -> Layout:
        """The parts that decide whether existing files stay valid."""
        return Layout(self.schema, self.partition_columns, self.column_mapping)


@dataclass(frozen=True)
class StoredMetadata(WantedMetadata):
    """Current metadata of a table, from its log.

    Args:
        features: Names of the protocol's table features.
    """

    features: frozenset[str]


def wanted_metadata(
    definition: TableDefinition,
    properties: Mapping[str, str],
    stored: StoredMetadata | None,
    dataset: str,
) -> WantedMetadata:
    """Derive the metadata to write from a definition.

    Args:
        properties: Its properties, validated by Delta.
        stored: Current metadata; None for a new table.
        dataset: Qualified name of the table, also written as its owner property.

    Raises:
        DatasetError: A Delta table cannot have this definition.
        SchemaChangeError: A column name needs column mapping but the definition turns it off, or
            the definition would turn off the table's column mapping.
    """
    check_definition(definition, dataset)
    has = stored.schema if stored else None
    schema = merged_schema(definition.schema, has, has_rules=definition.has_rules)
    current = stored.configuration if stored else None
    configuration = merged_configuration(properties, current, owner=dataset)
    odd = needs_column_mapping(schema)
    if odd and properties.get(COLUMN_MAPPING_MODE) == "none":
        raise SchemaChangeError(
            f"column {', '.join(odd)} has a name that Delta stores only with column mapping, but "
            f"{COLUMN_MAPPING_MODE} is 'none': remove that property or rename the column.",
            dataset=dataset,
        )
    if stored and stored.column_mapping and _mode(configuration) != _mode(stored.configuration):
        raise SchemaChangeError(
            f"{COLUMN_MAPPING_MODE} cannot change from {_mode(stored.configuration)} to "
            f"{_mode(configuration)}: remove the property from the declaration, or drop the table.",
            dataset=dataset,
        )
    if odd and _mode(configuration) == "none":
        configuration[COLUMN_MAPPING_MODE] = "name"
    if stored and not stored.column_mapping and _mode(configuration) != "none":
        # Delta assigns ids only if no column changes. If all ids are given, it accepts new columns
        # in the same commit.
        schema = mapped_schema(schema, stored.schema)
        configuration[COLUMN_MAPPING_FEATURE] = "supported"
    if definition.cluster_columns and (stored is None or "clustering" not in stored.features):
        configuration[CLUSTERING_FEATURE] = "supported"
    if stored and holds(schema, (TimestampNTZType,)) and "timestampNtz" not in stored.features:
        # Delta turns on this feature by itself only when it creates a table.
        configuration[TIMESTAMP_NTZ_FEATURE] = "supported"
    has_defaults = any(DEFAULT in column.metadata for column in schema.fields)
    if has_defaults and (stored is None or "allowColumnDefaults" not in stored.features):
        configuration[DEFAULTS_FEATURE] = "supported"
    if stored:
        _check_generated(schema, stored, dataset)
    return WantedMetadata(
        schema,
        tuple(_as_in_schema(name, schema) for name in definition.partition_columns),
        tuple(_as_in_schema(name, schema) for name in definition.cluster_columns),
        configuration,
        definition.comment or None,
    )


def is_unchanged(wanted: WantedMetadata, stored: StoredMetadata) -> bool:
    """Say whether writing the wanted metadata would change nothing."""
    features = {k.removeprefix("delta.feature.") for k in wanted.configuration if is_protocol(k)}
    plain = {k: v for k, v in wanted.configuration.items() if not is_protocol(k)}
    return (
        wanted.schema == stored.schema
        and wanted.partition_columns == stored.partition_columns
        and wanted.cluster_columns == stored.cluster_columns
        and plain == dict(stored.configuration)
        and wanted.comment == stored.comment
        and all(name.startswith("delta.") or name in stored.features for name in features)
    )


def _check_generated(schema: StructType, stored: StoredMetadata, dataset: str) -> None:
    """Refuse the first generated column of a table without the feature; Delta would drop its rule.

    Source of the rule: `OptimisticTransaction.updateMetadata` of Delta 4.4 removes generation
    expressions if the protocol before the change does not support them.
    """
    wanted, has = (
        [column.name for column in columns.fields if GENERATED in column.metadata]
        for columns in (schema, stored.schema)
    )
    if wanted and not has and "generatedColumns" not in stored.features:
        raise SchemaChangeError(
            f"column {', '.join(wanted)} is generated, and Delta takes generated columns into a "
            f"table that exists only with the table feature generatedColumns. Turn it on (ALTER "
            f"TABLE {dataset} SET TBLPROPERTIES ('{GENERATED_FEATURE}' = 'supported')) and run "
            f"again, or drop the table.",
            dataset=dataset,
        )


def _mode(configuration: Mapping[str, str]) -> str:
    return configuration.get(COLUMN_MAPPING_MODE, "none").lower()


def _as_in_schema(name: str, schema: StructType) -> str:
    column = column_named(schema, name)
    return column.name if column else name
