"""A walk through everything that happens to a pipeline, compared with the oracle at each run.

Hypothesis chooses the actions (`Walk`), and makes a walk that fails shorter: each action can be
done in any state.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from pyspark.sql import DataFrame, SparkSession

import delta_pipelines as dp
from delta_pipelines.delta.log.loading import load_table
from delta_pipelines.model.checkpoints import checkpoints_of
from delta_pipelines.model.constraints import constraints_of
from delta_pipelines.model.run_steps import Step
from delta_pipelines.planning.skipping import dependency_trace
from delta_pipelines_tests.support import walk_actions
from delta_pipelines_tests.support.engine_operations import Values
from delta_pipelines_tests.support.expected_tables import (
    DATASETS,
    FED,
    GONE,
    STREAMS,
    Columns,
    Content,
    Row,
    Rules,
    World,
)
from delta_pipelines_tests.support.kill_matrix import Cell, stopping
from delta_pipelines_tests.support.pipelines import (
    Injected,
    Seen,
    raising,
    run,
    scratch,
    seen_state,
)
from delta_pipelines_tests.support.walk_actions import Action, Run, weight

RESET = "pipelines.reset.allowed"
BASE: dict[str, Columns] = {
    "facts": (("id", "int"), ("n", "int")),
    "people": (("a", "int"), ("b", "string"), ("n", "int"), ("v", "string")),
    "landing": (("id", "int"), ("n", "int"), ("v", "string")),
}


class Walk(RuleBasedStateMachine):
    """The rule by which Hypothesis walks; each example has a pipeline and a schema of its own.

    Args:
        spark: The suite's session.
        schema: Makes the name of an empty schema.
        counted: Gets what every example did.
    """

    def __init__(
        self, spark: SparkSession, schema: Callable[[], str], counted: Counter[str]
    ) -> None:
        super().__init__()
        self.walker = Walker(spark, schema(), counted=counted)
        self.broken = False

    @rule(changes=st.lists(walk_actions.changes(), max_size=6), asked=walk_actions.runs())
    def runs(self, changes: list[Action], asked: Run) -> None:
        """Some things change, then there is a run.

        One rule for all: of several Hypothesis leaves some out in a walk, and one without runs
        shows nothing.
        """
        for change in changes:
            self._do(change)
        self._do(("run", asked))

    def teardown(self) -> None:
        """A walk ends with a look at all tables, selected by the last run or not."""
        if not self.broken:
            self.walker.check_all()

    def _do(self, action: Action) -> None:
        self.broken = True
        self.walker.do(action)
        self.broken = False


@dataclass
class Walker:
    """Does actions to a real pipeline and to the oracle.

    Args:
        spark: The suite's session.
        schema: An empty schema.
    """

    spark: SparkSession
    schema: str
    world: World = field(default_factory=World)
    looks: dict[str, Seen | None] = field(default_factory=lambda: dict.fromkeys(DATASETS))
    counted: Counter[str] = field(default_factory=Counter)
    numbers: int = 0

    def __post_init__(self) -> None:
        self.world.landing.columns = BASE["landing"]
        for name in FED:
            self.world.declared[name].columns = BASE[name]
            self._rows((name, [(1, "x", 1, "p")]))
        self._land([(1, "p")])

    def do(self, action: Action) -> None:
        """One action; everything that it should have done is checked."""
        rule, given = action
        rules: dict[str, Callable[[Any], None]] = {
            "run": self._run,
            "rows": self._rows,
            "land": self._land,
            "column": self._column,
            "widen": self._widen,
            "comment": self._comment,
            "reset": self._reset_allowed,
            "rules": self._rules,
            "stranger": self._stranger,
            "restart": self._restart,
        }
        self.counted[rule] += weight(action)
        self.counted["steps"] += weight(action)
        rules[rule](given)

    def _rows(self, given: Any) -> None:
        name, rows = given
        declared = self.world.declared[name]
        self.numbers += 1
        more = {c: f"{c}-{self.numbers}" for c, _ in declared.columns[len(BASE[name]) :]}
        if name == "facts":
            declared.rows = tuple({"id": a, "n": n, **more} for a, b, n, v in rows)
        else:
            declared.rows = tuple({"a": a, "b": b, "n": n, "v": v, **more} for a, b, n, v in rows)

    def _land(self, given: Any) -> None:
        landing, rows = self.world.landing, []
        for identity, value in given:
            self.numbers += 1
            row: Row = {"id": identity, "n": self.numbers, "v": value}
            row |= {c: f"{c}-{self.numbers}" for c, _ in landing.columns[3:]}
            rows.append(row)
        landing.rows = (*landing.rows, *rows)
        frame = values(landing.columns, rows).frame(self.spark).coalesce(1)
        writer = frame.write.format("delta").mode("append").option("mergeSchema", "true")
        writer.saveAsTable(f"{self.schema}.landing")

    def _column(self, name: str) -> None:
        declared = self.world.landing if name == "landing" else self.world.declared[name]
        declared.columns = (*declared.columns, (f"c{len(declared.columns)}", "string"))
        if name == "landing":
            self._land([(4, "p")])

    def _widen(self, name: str) -> None:
        declared = self.world.declared[name]
        declared.columns = tuple((n, "bigint" if n == "n" else t) for n, t in declared.columns)

    def _comment(self, name: str) -> None:
        self.numbers += 1
        self.world.declared[name].comment = f"n{self.numbers}"

    def _reset_allowed(self, name: str) -> None:
        declared = self.world.declared[name]
        declared.allowed = "false" if declared.allowed == "true" else "true"

    def _rules(self, given: Any) -> None:
        """From now on the dataset has declared columns; one thing of them changes."""
        name, what = given
        self.numbers += 1
        declared = self.world.declared[name]
        had = declared.rules or Rules(name)
        changes: dict[str, Any] = {
            "comment": f"n{self.numbers}",
            "default": self.numbers,
            "wide": name in FED,  # a stream cannot take a wider type while its table has rows
        }
        value = changes[what] if what in changes else not getattr(had, what)
        declared.rules = replace(had, **{what: value})

    def _stranger(self, name: str) -> None:
        table = self.world.tables[name]
        if table is None:
            return
        self.numbers += 1
        row: Row = dict.fromkeys(column for column, _ in table.columns)
        row |= {"a" if name == "people" else "id": 1000 + self.numbers, "n": 0}
        if name == "people":
            row["b"] = "z"
        values(table.columns, [row]).frame(self.spark).write.insertInto(f"{self.schema}.{name}")
        self.world.tables[name] = replace(table, rows=(*table.rows, row))
        self.looks[name] = self._look(name)

    def _restart(self, given: None) -> None:
        """What a new process does not know any more."""
        self.spark = self.spark.newSession()
        self.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        dependency_trace._merged_without_commit.clear()

    def _run(self, asked: Run) -> None:
        stops = {
            f"{self.schema}.{name}": (
                Cell(index, Step.COMMIT, moment),
                raising(Injected(f"{name} at {index}")),
            )
            for name, index, moment in asked.failing
        }
        with stopping(stops):
            result = run(
                self._declare(),
                self.spark,
                refresh=asked.names,
                full_refresh=asked.full,
                reset_checkpoints=asked.reset,
            )
        bad: set[str] = set()
        for name in asked.names:
            ended = result.results[name]
            label = f"{name}: {ended.status}, {ended.reason}"
            before, now = self.looks[name], self._look(name)
            self.looks[name] = now
            if name == "names" and ("people" in bad or self.world.tables["people"] is None):
                assert ended.status in ("skipped", "failed"), label
                assert now == before, label
                continue
            outcomes, refused = self.world.outcomes(
                name, full=name in asked.full, reset=name in asked.reset
            )
            if ended.status == "failed":
                bad.add(name)
                assert isinstance(ended.error, dp.PipelineError), label
                is_injected = " at " in str(ended.error)
                assert is_injected or refused, label
                reached = self._reached(name, outcomes, before, now, label)
                self.world.tables[name] = self.world.failed(name, reached)
                self.counted["failed" if is_injected else "refused"] += 1
                continue
            assert not refused, f"{label}: it took rows that break a rule"
            final, first = outcomes[-1], outcomes[0]
            assert now is not None, label
            assert final is not None, label
            assert content(now) == final.content(), (
                f"{label}: {content(now)}, not {final.content()}"
            )
            same = before is not None and before.version == now.version
            assert same == (ended.status == "unchanged"), label
            if name in KEPT and not same and first is not None and not final.fresh:
                changed = first.content() != final.content() or name in asked.full
                # Every micro-batch is a commit that tells its number.
                changed = changed or first.least != final.position
                assert changed, f"{label}: a commit that changed nothing"
            self.world.tables[name] = final
            self.counted[ended.status] += 1

    def _reached(
        self, name: str, outcomes: Sequence[Any], before: Seen | None, now: Seen | None, label: str
    ) -> Any:
        """The last of the states that a failed refresh may have ended in; there has to be one."""
        shown = content(now) if now else None
        fresh = ids(before) != ids(now)

        def is_reached(outcome: Any) -> bool:
            if (outcome.content() if outcome else None) != shown:
                return False
            if outcome is None or name not in STREAMS:
                return True
            return not fresh if outcome is outcomes[0] else bool(outcome.fresh == fresh)

        reached = [outcome for outcome in outcomes if is_reached(outcome)]
        states = [outcome.content() if outcome else None for outcome in outcomes]
        assert reached, f"{label}: {shown} (fresh: {fresh}) is none of {states}"
        last = reached[-1]
        return last and replace(last, least=min(one.least for one in reached if one))

    def _look(self, name: str) -> Seen | None:
        """As a user sees it, or as the next run will find a table that is not registered yet."""
        state = load_table(self.spark, dp.Identifier(None, self.schema, name))
        last = self.looks[name]
        if state and last and (state.table_id, state.version) == (last.table_id, last.version):
            return last  # a version of a Delta table never changes
        return seen_state(self.spark, state) if state else None

    def check_all(self) -> None:
        """Every table, selected or not, is as it should be."""
        for name, table in self.world.tables.items():
            now = self._look(name)
            assert now == self.looks[name], f"{name} changed by itself"
            assert (content(now) if now else None) == (table.content() if table else None), name

    def _declare(self) -> dp.Pipeline:
        pipeline, declared = scratch(self.schema), self.world.declared
        pipeline.source(f"{self.schema}.landing")

        def options(name: str) -> dict[str, Any]:
            about = declared[name]
            columns = about.rules.options(self.world.query(name)) if about.rules else {}
            return {"comment": about.comment, "table_properties": {RESET: about.allowed}, **columns}

        facts = values(declared["facts"].columns, declared["facts"].rows)
        people = values(declared["people"].columns, declared["people"].rows)
        upserts = {"sequence_by": "n", "deletes_when": f"v = '{GONE}'"}

        @pipeline.materialized_view("facts", **options("facts"))
        def of_facts(spark: SparkSession) -> DataFrame:
            return facts.frame(spark)

        @pipeline.upsert("people", keys=["a", "b"], **upserts, **options("people"))
        def of_people(spark: SparkSession) -> DataFrame:
            return people.frame(spark)

        pipeline.materialized_view("names", "SELECT a, b, n FROM people", **options("names"))
        landing = f"{self.schema}.landing"

        @pipeline.streaming_table("events", inputs={"new": landing}, **options("events"))
        def of_events(new: DataFrame) -> DataFrame:
            return new

        new = {"new": dp.Stream(landing)}

        @pipeline.upsert("latest", keys=["id"], inputs=new, **upserts, **options("latest"))
        def of_latest(new: DataFrame) -> DataFrame:
            return new

        return pipeline


KEPT = ("people", "latest", "events")


def values(columns: Columns, rows: Sequence[Row]) -> Values:
    """Rows of the oracle as a query."""
    ddl = ", ".join(f"{name} {kind}" for name, kind in columns)
    return Values(ddl, *(tuple(row.get(name) for name, _ in columns) for row in rows))


def content(look: Seen) -> Content:
    """What a real table and the oracle's can be compared by."""
    columns = tuple((f.name, f.dataType.simpleString()) for f in look.schema.fields)
    about = look.comment or "", look.properties.get(RESET, "")
    return columns, sorted(map(str, look.rows)), about, _rules_of(look)


def _rules_of(look: Seen) -> tuple[Any, ...] | None:
    """What a table shows of its declared columns; None when it has none."""
    fields = {field.name: field for field in look.schema.fields}
    if "d" not in fields:
        return None
    n, default = fields["n"], fields["d"].metadata.get("CURRENT_DEFAULT")
    return n.metadata.get("comment"), not n.nullable, default, constraints_of(look.properties)


def ids(look: Seen | None) -> set[str]:
    """The checkpoints of a table."""
    return {c.id for c in checkpoints_of(look.properties).values()} if look else set()
