"""Check by reflection that the JVM members that this package calls exist, before one is called.

Delta's transaction classes are not a public API: another version may have other parameters. If one
member differs, the writer with several commits is used, and its `reason` says why.
"""

from dataclasses import dataclass
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm
from delta_pipelines.model.identifiers import Identifier

_DELTA = "org.apache.spark.sql.delta"
_SESSION = "org.apache.spark.sql.SparkSession"
_OPTION = "scala.Option"
_SEQ = "scala.collection.immutable.Seq"
_MAP = "scala.collection.immutable.Map"
_TXN = f"{_DELTA}.OptimisticTransaction"
_METADATA = f"{_DELTA}.actions.Metadata"
_PATH = "org.apache.hadoop.fs.Path"
_ENTRY = "org.apache.spark.sql.catalyst.catalog.CatalogTable"
_HELPER = f"{_DELTA}.commands.DMLWithDeletionVectorsHelper$"
_CLUSTERED = f"{_DELTA}.skipping.clustering.ClusteredTableUtils$"


@dataclass(frozen=True)
class Member:
    """A JVM method, constructor (`<init>`) or field that this package uses.

    The parameter types are part of it. A field has no parameters (`is_field`).
    """

    owner: str
    name: str
    parameters: tuple[str, ...] = ()
    is_field: bool = False

    def __str__(self) -> str:
        if self.is_field:
            return f"{self.owner.rsplit('.', 1)[-1]}.{self.name}"
        shown = ", ".join(parameter.rsplit(".", 1)[-1] for parameter in self.parameters)
        return f"{self.owner.rsplit('.', 1)[-1]}.{self.name}({shown})"


REQUIRED: tuple[Member, ...] = (
    Member(f"{_DELTA}.DeltaLog", "forTable", (_SESSION, _ENTRY)),
    Member(f"{_DELTA}.DeltaLog", "forTable", (_SESSION, _PATH)),
    Member(f"{_DELTA}.DeltaLog", "update", ("boolean", _OPTION, _OPTION)),
    Member(f"{_DELTA}.DeltaLog", "startTransaction", (_OPTION, _OPTION)),
    Member(f"{_DELTA}.DeltaLog", "dataPath"),
    Member(f"{_DELTA}.DeltaLog", "logPath"),
    Member(f"{_DELTA}.DeltaLog", "store"),
    Member(f"{_DELTA}.DeltaLog", "newDeltaHadoopConf"),
    Member(
        f"{_DELTA}.DeltaLog",
        "createDataFrame",
        (f"{_DELTA}.SnapshotDescriptor", _SEQ, "boolean", _OPTION),
    ),
    Member(f"{_DELTA}.DeltaTableUtils$", "isDeltaTable", (_ENTRY,)),
    Member(f"{_DELTA}.Snapshot", "version"),
    Member(f"{_DELTA}.Snapshot", "metadata"),
    Member(f"{_DELTA}.Snapshot", "protocol"),
    Member(f"{_DELTA}.Snapshot", "checksumOpt"),
    Member(f"{_DELTA}.Snapshot", "computeChecksum"),
    Member(f"{_DELTA}.DummySnapshot", "<init>", (_PATH, f"{_DELTA}.DeltaLog")),
    Member(f"{_DELTA}.Snapshot", "checksumOpt", is_field=True),
    Member(f"{_DELTA}.VersionChecksum", "allFiles", is_field=True),
    Member(f"{_DELTA}.VersionChecksum", "setTransactions"),
    Member(f"{_DELTA}.VersionChecksum", "allFiles"),
    Member(f"{_DELTA}.VersionChecksum", "numFiles"),
    Member(f"{_DELTA}.util.JsonUtils$", "mapper"),
    Member(_TXN, "metadata"),
    Member(_TXN, "protocol"),
    Member(_TXN, "updateMetadata", (_METADATA, "boolean")),
    Member(_TXN, "filterFiles"),
    Member(_TXN, "filterFiles", (_SEQ, "boolean")),
    Member(_TXN, "readWholeTable"),
    Member(_TXN, "trackFilesRead", (_SEQ,)),
    Member(_TXN, "writeFiles", ("org.apache.spark.sql.Dataset",)),
    Member(_TXN, "getMetric", ("java.lang.String",)),
    Member(_TXN, "registerSQLMetrics", (_SESSION, _MAP)),
    Member(_TXN, "updateSetTransaction", ("java.lang.String", "long", _OPTION)),
    Member(_TXN, "txnVersion", ("java.lang.String",)),
    Member(_TXN, "readTxn"),
    Member(_TXN, "getCommitted"),
    Member(_TXN, "commit", (_SEQ, f"{_DELTA}.DeltaOperations$Operation")),
    Member(_METADATA, "json"),
    Member(f"{_DELTA}.actions.Protocol", "json"),
    Member(
        _METADATA,
        "<init>",
        (
            "java.lang.String",
            "java.lang.String",
            "java.lang.String",
            f"{_DELTA}.actions.Format",
            "java.lang.String",
            _SEQ,
            _MAP,
            _OPTION,
        ),
    ),
    Member(
        f"{_DELTA}.DeltaOperations$Write",
        "<init>",
        ("org.apache.spark.sql.SaveMode", *[_OPTION] * 8),
    ),
    Member(f"{_DELTA}.DeltaConfigs$", "validateConfigurations", (_MAP,)),
    Member(_HELPER, "generateCandidateFileMap", (_PATH, _SEQ)),
    Member(_HELPER, "getTouchedFile", (_PATH, "java.lang.String", _MAP)),
    Member(_HELPER, "removeFilesFromPaths", (f"{_DELTA}.DeltaLog", _MAP, _SEQ, "long")),
    Member(_CLUSTERED, "getDomainMetadataFromTransaction", (_OPTION, _TXN)),
    Member(f"{_DELTA}.skipping.clustering.temp.ClusterBySpec$", "fromColumnNames", (_SEQ,)),
    Member(
        f"{_DELTA}.skipping.clustering.ClusteringColumnInfo$",
        "extractLogicalNames",
        (f"{_DELTA}.Snapshot",),
    ),
    Member(f"{_DELTA}.util.FileNames", "unsafeDeltaFile", (_PATH, "long")),
    Member(
        "org.apache.spark.sql.catalyst.catalog.SessionCatalog",
        "createTable",
        (_ENTRY, "boolean", "boolean"),
    ),
    Member("org.apache.spark.sql.catalyst.expressions.NamedExpression$", "curId", is_field=True),
)

_checked: WeakKeyDictionary[SparkContext, dict[tuple[Member, ...], str | None]] = (
    WeakKeyDictionary()
)
"""The key is the context itself: its id would cost two round trips to the JVM, some 100 times
a run. The results of a stopped context are dropped; the next context may have another Delta."""


def check_signatures(spark: SparkSession, required: tuple[Member, ...] = REQUIRED) -> str | None:
    """Check that Delta's transaction classes have the members that this package calls.

    Returns:
        What is missing, as a sentence; None when every member exists. Cached per Spark context.
    """
    known = _checked.setdefault(spark.sparkContext, {})
    # A tuple's hash is computed at each lookup, and this tuple is long.
    key = () if required is REQUIRED else required
    if key not in known:
        known[key] = _first_missing(Jvm(spark), required)
    return known[key]


def unavailable(spark: SparkSession, identifier: Identifier) -> str | None:
    """Say why a table cannot be written in one commit, or None when it can."""
    if not identifier.in_session_catalog:
        return f"{identifier.catalog} is not the session catalog."
    return check_signatures(spark)


def _first_missing(jvm: Jvm, required: tuple[Member, ...]) -> str | None:
    loader = jvm.root.java.lang.Thread.currentThread().getContextClassLoader()
    for_name = jvm.root.java.lang.Class.forName
    found: dict[str, JavaObject] = {}

    def java_type(name: str) -> JavaObject:
        if name not in found:
            boxed = {"boolean": "Boolean", "int": "Integer", "long": "Long"}.get(name)
            found[name] = (
                getattr(jvm.root.java.lang, boxed).TYPE if boxed else for_name(name, False, loader)
            )
        return found[name]

    for member in required:
        try:
            owner = java_type(member.owner)
            parameters = jvm.root.java.lang.reflect.Array.newInstance(
                java_type("java.lang.Class"), len(member.parameters)
            )
            for index, parameter in enumerate(member.parameters):
                parameters[index] = java_type(parameter)
            if member.is_field:
                owner.getDeclaredField(member.name)
            elif member.name == "<init>":
                owner.getConstructor(parameters)
            else:
                owner.getMethod(member.name, parameters)
        except Py4JError as exc:
            # Every error of py4j or the JVM means the same here: not the tested version.
            return (
                f"this Delta version has no {member} as tested with 4.4.0 ({type(exc).__name__})."
            )
    return None
