"""The rules of schema drift once more, in plain Python on plain schemas: what tests compare with.

Written from the documentation, not from the package.
"""

import datetime as dt
from decimal import Decimal
from typing import Any

from delta_pipelines_tests.support.random_schemas import Column, PlainType, Schema

INTEGERS = ["tinyint", "smallint", "int", "bigint"]
DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}


class Refuse(Exception):
    """The model refuses a schema."""


def widens(narrow: PlainType, wide: PlainType) -> bool:
    """Every value of `narrow` is one of `wide`, among the pairs of Delta's type widening."""
    if narrow == wide:
        return True
    if isinstance(wide, tuple):
        if wide[0] != "decimal":
            return False
        whole = wide[1] - wide[2]
        if isinstance(narrow, tuple):
            return narrow[0] == "decimal" and (
                wide[2] >= narrow[2] and whole >= narrow[1] - narrow[2]
            )
        return whole >= DIGITS.get(narrow, 99)
    if narrow in INTEGERS and wide in INTEGERS:
        return INTEGERS.index(wide) > INTEGERS.index(narrow)
    return (narrow, wide) in {
        ("tinyint", "double"),
        ("smallint", "double"),
        ("int", "double"),
        ("float", "double"),
        ("date", "timestamp_ntz"),
    }


def union(left: PlainType, right: PlainType, *, must_have_all: bool) -> PlainType:
    """The type that holds both, left columns first; `Refuse` when there is none."""
    match left, right:
        case ("struct", mine), ("struct", theirs):
            return ("struct", union_columns(mine, theirs, must_have_all=must_have_all))
        case ("array", mine), ("array", theirs):
            return ("array", union(mine, theirs, must_have_all=must_have_all))
        case ("map", key, value), ("map", other_key, other_value):
            return (
                "map",
                union(key, other_key, must_have_all=must_have_all),
                union(value, other_value, must_have_all=must_have_all),
            )
    if widens(right, left):
        return left
    if widens(left, right):
        return right
    raise Refuse(left, right)


def union_columns(left: Schema, right: Schema, *, must_have_all: bool) -> Schema:
    """As `union`, of columns; with `must_have_all` the right side's comments count.

    Names match without letter case, and the left side's spelling stays.
    """
    for columns in (left, right):
        if len({c.name.lower() for c in columns}) < len(columns):
            raise Refuse("twins")
        check_twins(("struct", columns))
    theirs = {c.name.lower(): c for c in right}
    columns = []
    for mine in left:
        other = theirs.get(mine.name.lower())
        if other is None and must_have_all:
            raise Refuse("gone", mine.name)
        if other is None:
            columns.append(mine)
            continue
        kind = union(mine.type, other.type, must_have_all=must_have_all)
        comment = other.comment if must_have_all else mine.comment or other.comment
        columns.append(Column(mine.name, kind, mine.nullable, comment))
    known = {c.name.lower() for c in left}
    return (*columns, *(c for c in right if c.name.lower() not in known))


def check_twins(plain: PlainType) -> None:
    """`Refuse` names that differ in nothing but letter case, at any depth."""
    match plain:
        case ("struct", columns):
            if len({c.name.lower() for c in columns}) < len(columns):
                raise Refuse("twins")
            for column in columns:
                check_twins(column.type)
        case ("array", element):
            check_twins(element)
        case ("map", key, value):
            check_twins(key)
            check_twins(value)


def has_void(plain: PlainType) -> bool:
    """Some part has no type."""
    match plain:
        case ("struct", columns):
            return any(has_void(c.type) for c in columns)
        case ("array", element):
            return has_void(element)
        case ("map", key, value):
            return has_void(key) or has_void(value)
    return bool(plain == "void")


def kinds(current: PlainType, target: PlainType) -> set[str]:
    """Which kinds of change lie between two types."""
    match current, target:
        case ("struct", before), ("struct", after):
            old, new = {c.name: c for c in before}, {c.name: c for c in after}
            found = {"add" for name in new if name not in old}
            found |= {"drop" for name in old if name not in new}
            both = [name for name in old if name in new]
            if both != [name for name in new if name in old]:
                found.add("order")
            for name in both:
                found |= kinds(old[name].type, new[name].type)
                if old[name].nullable != new[name].nullable:
                    found.add("nullability")
                if old[name].comment != new[name].comment:
                    found.add("comment")
            return found
        case ("array", before), ("array", after):
            return kinds(before, after)
        case ("map", key, before), ("map", other, after):
            return kinds(key, other) | kinds(before, after)
    return set() if current == target else {"type"}


def decided(kind: str, policy: str, current: Schema, query: Schema, *, full: bool) -> Schema:
    """The schema after a refresh; `Refuse` when the dataset is not refreshed."""
    query = tuple(c._replace(nullable=True) for c in query)
    target = query
    if kind != "materialized_view" and not full:
        target = union_columns(current, query, must_have_all=True)
    check_twins(("struct", target))
    if has_void(("struct", target)):
        raise Refuse("void")
    if not full:
        allowed = {"add_columns": {"add", "comment"}, "fail": {"comment"}}.get(policy)
        if allowed is not None and kinds(("struct", current), ("struct", target)) - allowed:
            raise Refuse(policy)
    return target


def kept_value(value: Any, has: PlainType, wanted: PlainType) -> Any:
    """A value as the wanted type shows it: widened, with None where it has no column."""
    if value is None:
        return None
    match has, wanted:
        case ("struct", mine), ("struct", columns):
            given = {c.name.lower(): c for c in mine}
            return {
                c.name: kept_value(value[source.name], source.type, c.type)
                if (source := given.get(c.name.lower()))
                else None
                for c in columns
            }
        case ("array", element), ("array", target):
            return [kept_value(item, element, target) for item in value]
        case ("map", key, item), ("map", key_target, target):
            return {
                kept_value(k, key, key_target): kept_value(v, item, target)
                for k, v in value.items()
            }
        case (_, ("decimal", _, _)):
            return Decimal(value)
        case ("date", "timestamp_ntz"):
            return dt.datetime(value.year, value.month, value.day)
        case (_, "double"):
            return float(value)
    return value
