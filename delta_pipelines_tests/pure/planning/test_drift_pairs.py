"""Random schema pairs: the planner decides each as the plain-Python rules do."""

import random
from collections.abc import Callable

import pytest
from pyspark.sql.types import StructType

import delta_pipelines as dp
from delta_pipelines.errors import DatasetError, SchemaChangeError
from delta_pipelines.graph.graph import Table
from delta_pipelines.model.table_definition import check_definition
from delta_pipelines.model.table_state import TableState
from delta_pipelines.planning.schema.schema_diff import diff_schemas
from delta_pipelines.planning.schema.schema_evolution import Refused, merged_schema
from delta_pipelines.planning.schema.target_definition import table_definition
from delta_pipelines_tests.support import drift_rules as rules
from delta_pipelines_tests.support.random_schemas import (
    Column,
    Schema,
    changed_schema,
    random_schema,
    struct,
)

KEY = Column("id", "int")
POLICIES = ("evolve", "add_columns", "fail")


def tables() -> dict[tuple[str, str], Table]:
    made = {}
    for policy in POLICIES:
        p = dp.Pipeline("p", schema="s")
        p.materialized_view("materialized_view", "SELECT 1 AS id", schema_drift=policy)
        p.upsert("upsert", "SELECT 1 AS id", keys=["id"], schema_drift=policy)
        for table in p.graph().tables:
            made[table.kind, policy] = table
    return made


def planned(table: Table, current: Schema, query: Schema, *, full: bool) -> StructType | None:
    """What the planner decides; None when it refuses by a named error."""
    base = TableState(table.identifier, "file:/w/t", "id", 3, struct(current))
    try:
        definition = table_definition(
            table, base, struct(query), is_full_refresh=full, pipeline="p"
        )
        check_definition(definition, table.name)
    except SchemaChangeError:
        if full or (table.kind, table.declaration.schema_drift) == ("materialized_view", "evolve"):
            raise
        return None
    except DatasetError as error:
        if "occurs twice" not in str(error) and "has no type" not in str(error):
            raise
        return None
    return definition.schema


def modelled(
    kind: str, policy: str, current: Schema, query: Schema, *, full: bool
) -> StructType | None:
    try:
        return struct(rules.decided(kind, policy, current, query, full=full))
    except rules.Refuse:
        return None


def pair(rng: random.Random) -> tuple[Schema, Schema]:
    current = (KEY, *random_schema(rng, 2))
    if rng.random() < 0.2:
        position = rng.randrange(len(current))
        altered = current[position]._replace(nullable=False)
        current = (*current[:position], altered, *current[position + 1 :])
    query = changed_schema(rng, current[1:], rng.choice([0, 1, 1, 1, 2, 3]))
    return current, (KEY, *query)


def decide_pairs(count: int, seed: int) -> dict[str, int]:
    rng, made, counts = random.Random(seed), tables(), {"taken": 0, "refused": 0}
    for number in range(count):
        current, query = pair(rng)
        for (kind, policy), table in made.items():
            for full in (False, True):
                decided = planned(table, current, query, full=full)
                expected = modelled(kind, policy, current, query, full=full)
                assert decided == expected, (number, kind, policy, full, current, query)
                counts["refused" if decided is None else "taken"] += 1
        found = {change.kind for change in diff_schemas(struct(current), struct(query))}
        assert found == rules.kinds(("struct", current), ("struct", query))
    return counts


def test_a_thousand_schema_pairs_are_decided_as_the_rules_say(
    record_property: Callable[[str, object], None],
) -> None:
    counts = decide_pairs(1_000, seed=4)
    assert min(counts.values()) > 2_000, "both outcomes are common"
    total = sum(counts.values())
    record_property("proved", f"1,000 schema pairs, {total:,} decisions {counts}, 0 differences")


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_many_more_schema_pairs_are_decided_as_the_rules_say(seed: int) -> None:
    decide_pairs(2_000, seed=1_000 + seed)


def test_flows_are_united_as_the_rules_say() -> None:
    rng, refused = random.Random(5), 0
    for _ in range(1_000):
        left, right = pair(rng)
        left, right = (tuple(c._replace(nullable=True) for c in side) for side in (left, right))
        try:
            expected = struct(rules.union_columns(left, right, must_have_all=False))
        except rules.Refuse:
            refused += 1
            with pytest.raises(Refused):
                merged_schema(struct(left), struct(right))
        else:
            assert merged_schema(struct(left), struct(right)) == expected
    assert 100 < refused < 800, "both outcomes are common"
