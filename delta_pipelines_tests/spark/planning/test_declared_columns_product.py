"""Types x NOT NULL x comment x default x generated x constraint x order, and a change of each.

Every cell is a table of some kind that is refreshed twice; a plain-Python model says what it is
after each refresh, or that the refresh is refused and the table is as it was.
"""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame

from delta_pipelines_tests.support import declared_rules as rules
from delta_pipelines_tests.support.pipelines import run, scratch, seen

CELLS = 324
EVERY = 17
"""One run takes every 17th cell; 17 has no divisor in common with the kinds and the changes."""
VALUES = {"plain": [7, 8], "null": [7, None], "forbidden": [7, rules.FORBIDDEN]}
CHANGES = ("nothing", "kind", "required", "comment", "rule", "checked", "first")


class Cell(NamedTuple):
    """Two declarations and the rows of two refreshes."""

    number: int
    kind: str
    given: str
    columns: tuple[rules.Column, rules.Column]
    rows: tuple[list[rules.Row], list[rules.Row]]

    @property
    def name(self) -> str:
        return f"t{self.number}"


def cells() -> Iterator[Cell]:
    rng = random.Random(4711)
    for number in range(CELLS):
        kind = rules.KINDS[number % len(rules.KINDS)]
        change = CHANGES[number // len(rules.KINDS) % len(CHANGES)]
        given = rng.choice(["int", "int", "bigint", "string"])
        fitting = [t for t in rules.CONVERT if t == given or (given, t) in rules.WIDER]
        types = fitting if rng.random() < 0.8 else list(rules.CONVERT)
        first = rules.Column(
            kind=rng.choice(types),
            required=rng.random() < 0.3,
            comment=rng.choice(["", "one", "it's"]),
            rule=rng.choice(["", "", "default", "generated"]),
            checked=rng.random() < 0.3,
            first=rng.random() < 0.5,
        )
        second = first
        if change in ("required", "checked", "first"):
            second = replace(first, **{change: not getattr(first, change)})
        elif change != "nothing":
            others = {
                "kind": list(rules.CONVERT),
                "comment": ["", "one", "two"],
                "rule": ["", "default", "generated"],
            }[change]
            second = replace(
                first, **{change: rng.choice([v for v in others if v != getattr(first, change)])}
            )
        made = [VALUES[rng.choice(["plain", "plain", "plain", "null", "forbidden"])] for _ in "12"]
        one, two = (
            [(number, rules.CONVERT[given](v) if v is not None else None) for number, v in pairs]
            for pairs in (zip([1, 2], made[0], strict=True), zip([2, 3], made[1], strict=True))
        )
        yield Cell(number, kind, given, (first, second), (one, two))


def options(column: rules.Column, number: int) -> dict[str, Any]:
    text = [f"v {column.kind}"]
    if column.required:
        text.append("NOT NULL")
    if column.rule == "default":
        text.append(f"DEFAULT CAST({rules.DEFAULT} AS {column.kind})")
    if column.rule == "generated":
        text.append(f"GENERATED ALWAYS AS (CAST(id * 2 AS {column.kind}))")
    by_text = number % 2 == 0
    if column.comment and by_text:
        text.append(f'COMMENT "{column.comment}"')
    both = [" ".join(text), "id INT"]
    found: dict[str, Any] = {"columns": ", ".join(both if column.first else both[::-1])}
    if column.comment and not by_text:
        found["column_comments"] = {"V": column.comment}
    if column.checked:
        found["constraints"] = {"Some": f"v <> CAST({rules.FORBIDDEN} AS {column.kind})"}
    return found


def declare(pipeline: Any, spark: Any, cell: Cell, step: int) -> None:
    column, rows = cell.columns[step], cell.rows[step]
    names = ["id"] if column.rule else ["v", "id"]
    given = f"id INT, v {cell.given}"
    wanted = options(column, cell.number)
    if cell.kind == "streaming_table":
        landing = f"{pipeline.schema}.landing{cell.number}"
        frame = spark.createDataFrame(rows, given)
        frame.write.format("delta").mode("append").saveAsTable(landing)
        pipeline.source(landing)
        inputs = {"rows": landing}

        @pipeline.streaming_table(cell.name, inputs=inputs, **wanted)
        def streamed(rows: DataFrame) -> DataFrame:
            return rows.select(*names)
    else:
        kind = pipeline.materialized_view
        if cell.kind == "upsert":
            kind, wanted = pipeline.upsert, {**wanted, "keys": ["id"]}

        @kind(cell.name, **wanted)
        def computed(spark: Any) -> DataFrame:
            return spark.createDataFrame(rows, given).select(*names)


def looks(table: Any) -> Any:
    if table is None:
        return None
    order = table.schema.names
    rows = [(row[order.index("id")], row[order.index("v")]) for row in table.rows]
    column = table.schema["v"]
    return {
        "rows": sorted(rows, key=str),
        "type": column.dataType.simpleString(),
        "required": not column.nullable,
        "comment": column.metadata.get("comment", ""),
        "default": "CURRENT_DEFAULT" in column.metadata,
        "generated": "delta.generationExpression" in column.metadata,
        "checked": "delta.constraints.some" in table.properties,
        "first": order == ["v", "id"],
    }


def expected(model: rules.Model) -> Any:
    column = model.column
    if column is None:
        return None
    return {
        "rows": sorted(model.rows, key=str),
        "type": column.kind,
        "required": column.required,
        "comment": column.comment,
        "default": column.rule == "default",
        "generated": column.rule == "generated",
        "checked": column.checked,
        "first": column.first,
    }


def test_each_refresh_does_what_the_model_says(spark, schema, share, record_property):
    chosen = list(cells())
    if share.parts > 1:
        chosen = chosen[share.number % EVERY :: EVERY]
    assert len(chosen) >= CELLS // EVERY
    models = {cell.name: rules.Model(cell.kind, cell.given) for cell in chosen}
    counts = {"taken": 0, "refused": 0}
    for step in (0, 1):
        pipeline = scratch(schema)
        for cell in chosen:
            declare(pipeline, spark, cell, step)
        before = {cell.name: seen(spark, f"{schema}.{cell.name}") for cell in chosen}
        result = run(pipeline, spark)
        for cell in chosen:
            refused = ""
            try:
                models[cell.name].refresh(cell.columns[step], cell.rows[step])
            except rules.Refuse as why:
                refused = str(why)
            now = seen(spark, f"{schema}.{cell.name}")
            error = result.results[cell.name].error
            assert bool(refused) == (error is not None), (cell, step, refused, error)
            assert looks(now) == expected(models[cell.name]), (cell, step, refused, error)
            counts["refused" if refused else "taken"] += 1
            if cell.kind != "streaming_table" and refused:
                assert now == before[cell.name]
            elif cell.kind != "streaming_table" and before[cell.name] is not None:
                assert now.version == before[cell.name].version + 1
    record_property("proved", f"declared columns: {len(chosen)} cells, {counts}, 0 differences")


@pytest.mark.parametrize("kind", rules.KINDS)
def test_the_cells_have_every_change_on_every_kind(kind: str) -> None:
    found = [cell for cell in cells() if cell.kind == kind]
    for name in CHANGES[1:]:
        changed = [c for c in found if getattr(c.columns[0], name) != getattr(c.columns[1], name)]
        assert len(changed) >= CELLS // len(rules.KINDS) // len(CHANGES), name
