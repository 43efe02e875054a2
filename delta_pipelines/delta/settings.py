"""The settings of a session that decide which rows a query gives, and the engine that gives them.

The rule: a setting counts when Spark's or Delta's documentation says that it changes what a query
returns, an error included; one that changes only how fast, how parallel or where it is computed
does not. All of a dataset's own `spark_conf` counts, as part of its definition.
"""

from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.sql import SparkSession

from delta_pipelines.delta.jvm import Jvm
from delta_pipelines.delta.sessions import settings_of

_COUNTS = frozenset(
    {
        "spark.sql.ansi.enabled",
        "spark.sql.ansi.doubleQuotedIdentifiers",
        "spark.sql.ansi.enforceReservedKeywords",
        "spark.sql.binaryOutputStyle",
        "spark.sql.caseSensitive",
        "spark.sql.columnNameOfCorruptRecord",
        "spark.sql.decimalOperations.allowPrecisionLoss",
        "spark.sql.files.ignoreCorruptFiles",
        "spark.sql.files.ignoreMissingFiles",
        "spark.sql.files.ignoreInvalidPartitionPaths",
        "spark.sql.groupByAliases",
        "spark.sql.groupByOrdinal",
        "spark.sql.mapKeyDedupPolicy",
        "spark.sql.orderByOrdinal",
        "spark.sql.storeAssignmentPolicy",
        "spark.sql.timestampType",
    }
)
_COUNT_ALL = (
    "spark.sql.avro.",
    "spark.sql.csv.",
    "spark.sql.json.",
    "spark.sql.legacy.",
    "spark.sql.orc.",
    "spark.sql.parquet.",
    "spark.sql.session.collation.",
    "spark.sql.sources.partitionColumnTypeInference.",
    "spark.sql.variable.",
    "spark.sql.execution.pandas.",
    "spark.sql.execution.pythonUDF.",
    "spark.sql.execution.pythonUDTF.",
)
_ONLY_SPEED = (
    "compression",
    "vectorizedReader",
    "filterPushdown",
    "columnarReader",
    "VectorizedReader",
    "aggregatePushdown",
    "writeLegacyFormat",
)
TIME_ZONE = "spark.sql.session.timeZone"


def counts(name: str) -> bool:
    """Say whether a setting can change rows, by its full name.

    Example:
        >>> counts("spark.sql.ansi.enabled"), counts("spark.sql.shuffle.partitions")
        (True, False)
    """
    if name in _COUNTS:
        return True
    return name.startswith(_COUNT_ALL) and not any(part in name for part in _ONLY_SPEED)


def row_settings(spark: SparkSession) -> dict[str, str]:
    """The settings of a session that can change rows, as far as they were set.

    Args:
        spark: A classic session.

    Returns:
        Value by full name; always the time zone, which is the machine's when nobody set it.
    """
    found = {name: value for name, value in settings_of(spark).items() if counts(name)}
    conf = Jvm(spark).session.sessionState().conf()
    return {**found, TIME_ZONE: str(conf.sessionLocalTimeZone())}


_engines: WeakKeyDictionary[SparkContext, str] = WeakKeyDictionary()


def engine(spark: SparkSession) -> str:
    """The versions of Spark and Delta, as text; asked for once for each Spark context.

    Args:
        spark: A classic session.
    """
    if spark.sparkContext not in _engines:
        delta = Jvm(spark).object("io.delta.package").VERSION()
        _engines[spark.sparkContext] = f"Spark {spark.version}, Delta {delta}"
    return _engines[spark.sparkContext]
