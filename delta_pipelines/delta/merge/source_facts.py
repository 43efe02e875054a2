"""Facts from the analysed plan of a merge's source, by Delta's own predicates."""

from collections.abc import Iterator

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.classic.column import Column as ClassicColumn

from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm, items, optional
from delta_pipelines.delta.jvm.sessions import is_on
from delta_pipelines.delta.query.plan_nodes import files_relation
from delta_pipelines.model.source_facts import SourceFacts

_MERGE = "spark.databricks.delta.merge"
_UNREADABLE = ("ignoreMissingFiles", "ignoreCorruptFiles")


def gather_source_facts(spark: SparkSession, source: DataFrame) -> SourceFacts:
    """Examine a source's analysed plan; no Spark job runs.

    Calls Delta's own predicates (those of `MergeIntoCommand`), so that the result cannot differ
    from Delta's decision in the merge.

    Args:
        spark: The session with the settings for the merge.
        source: The rows to merge, as they are passed to Delta.

    Example:
        >>> gather_source_facts(spark, spark.range(3)).only_delta_scans
        False
    """
    jvm = Jvm(spark)
    plan = source._jdf.queryExecution().analyzed()
    delta = _delta_predicates(jvm, plan)
    options = jvm.type(
        "org.apache.spark.sql.delta.util.DeltaSparkPlanUtils$CheckDeterministicOptions"
    )(True)
    return SourceFacts(
        only_delta_scans=bool(delta.planContainsOnlyDeltaScans(plan)),
        deterministic=bool(delta.planIsDeterministic(plan, options)),
        ignores_unreadable_files=_ignores_unreadable_files(spark, plan),
        has_udf=bool(delta.planContainsUdf(plan)),
        cached=is_on(spark, f"{_MERGE}.materializeCachedSource", "true")
        and bool(delta.planContainsCachedRelation(source._jdf)),
    )


def equi_join_keys(joined: DataFrame) -> tuple[list[Column], list[str]]:
    """Find the left side's keys of a join, as Spark's planner does.

    Args:
        joined: A join without further operations.

    Returns:
        Expressions over the left side that are equal for two of its rows whenever both match one
        row of the right side, and the names of the left side's columns in them. Both are empty
        when the condition contains no equality between the sides.

    Example:
        >>> flights.alias("s").join(airports.alias("t"), F.expr("s.origin = t.icao and s.n > t.n"))
        >>> equi_join_keys(_)[1]
        ['origin']
    """
    jvm = Jvm(joined.sparkSession)
    extractor = jvm.root.org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys
    found = optional(extractor.unapply(joined._jdf.queryExecution().analyzed()))
    if found is None:
        return [], []
    keys = items(found._2())
    columns = jvm.root.org.apache.spark.sql.classic.ExpressionUtils
    names: list[str] = []
    for key in keys:
        attributes = key.references().toSeq()
        names += [a.name() for a in items(attributes) if a.name() not in names]
    return [ClassicColumn(columns.column(key)) for key in keys], names


def _delta_predicates(jvm: Jvm, plan: JavaObject) -> JavaObject:
    # The predicates are in a trait of commands. This command never runs: its target is the source
    # again, and it needs no file index to examine a plan.
    boolean = jvm.object("org.apache.spark.sql.types.BooleanType")
    always = jvm.root.org.apache.spark.sql.catalyst.expressions.Literal.create(True, boolean)
    nothing = jvm.sequence([])
    return jvm.delta.commands.MergeIntoCommand(
        plan,
        plan,
        jvm.none,
        None,
        always,
        nothing,
        nothing,
        nothing,
        jvm.none,
        nothing.toSet(),
        False,
    )


def _ignores_unreadable_files(spark: SparkSession, plan: JavaObject) -> bool:
    if not is_on(spark, f"{_MERGE}.forceSourceMaterializationWithUnreadableFilesConfig", "true"):
        return False
    if any(is_on(spark, f"spark.sql.files.{name}", "false") for name in _UNREADABLE):
        return True
    return any(
        optional(options.get(name)) == "true"
        for options in _file_read_options(plan)
        for name in _UNREADABLE
    )


def _file_read_options(plan: JavaObject) -> Iterator[JavaObject]:
    for leaf in items(plan.collectLeaves()):
        relation = files_relation(leaf)
        if relation is not None:
            yield relation.options()
