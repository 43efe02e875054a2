"""Apply Delta's own analysis to a merge in Delta's builder."""

import threading
from typing import Any

from delta.tables import DeltaMergeBuilder
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm
from delta_pipelines.delta.merge.resolved_merge import MergePlan

_starting = threading.Lock()
"""PySpark checks for its callback server and then starts it: two threads would start two."""


def resolve_merge(spark: SparkSession, builder: DeltaMergeBuilder) -> MergePlan:
    """Resolve the merge of a Delta builder, as its `execute` would.

    Args:
        builder: The builder with all clauses.

    Raises:
        AnalysisException: As `execute` would.
    """
    jvm = Jvm(spark)
    described = builder._jbuilder
    settings = jvm.session.sessionState().conf()
    resolved = jvm.delta.ResolveDeltaMergeInto.resolveReferencesAndSchema(
        _described_plan(jvm, described), settings, _resolver(jvm, described)
    )
    target = jvm.delta.DeltaViewHelper.stripTempViewForMerge(resolved.target(), settings)
    if not target.equals(resolved.target()):
        resolved = resolved.withNewChildren(jvm.sequence([target, resolved.source()]))
    command = jvm.delta.PreprocessTableMerge(settings).apply(resolved, True)
    command = jvm.delta.PostHocResolveUpCast(jvm.session).apply(command)
    jvm.session.sessionState().analyzer().checkAnalysis(command)
    return MergePlan(jvm, command)


def _described_plan(jvm: Jvm, described: JavaObject) -> JavaObject:
    gateway: Any = jvm.spark.sparkContext._gateway
    method = described.getClass().getDeclaredMethod(
        "mergePlan", gateway.new_array(jvm.root.java.lang.Class, 0)
    )
    method.setAccessible(True)
    return method.invoke(described, gateway.new_array(jvm.root.java.lang.Object, 0))


def _resolver(jvm: Jvm, described: JavaObject) -> object:
    """Delta's function that resolves expressions against plans, as a Scala function."""
    gateway: Any = jvm.spark.sparkContext._gateway
    with _starting:
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]

    class Resolver:
        def apply(self, expressions: JavaObject, plans: JavaObject) -> JavaObject:
            return described.tryResolveReferencesForExpressions(jvm.session, expressions, plans)

        class Java:
            implements = ("scala.Function2",)

    return Resolver()
