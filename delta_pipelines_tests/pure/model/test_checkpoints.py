"""Checkpoints remembered in a table's properties."""

import json
import posixpath
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from delta_pipelines.delta.storage.folders import is_below
from delta_pipelines.errors import DatasetError
from delta_pipelines.model.checkpoints import (
    CHECKPOINTS_KEY,
    EPOCH_KEY,
    REPLACED_KEY,
    Checkpoint,
    StreamSource,
    checkpoints_folder,
    checkpoints_of,
    checkpoints_property,
    checkpoints_root,
    epoch_of,
    next_checkpoints,
    next_epoch,
    replaced_checkpoints,
    replaced_property,
)
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.table_state import TableState

TABLE = Identifier(None, "s", "t")
ID, OTHER = "0" * 31 + "a", "0" * 31 + "b"
SOURCES = st.dictionaries(
    st.text(min_size=1), st.builds(StreamSource, st.text(), st.integers(0, 9)), max_size=3
)
FLOWS = st.from_regex(r"[a-z0-9_]{1,9}", fullmatch=True)
CHECKPOINTS = st.dictionaries(
    FLOWS,
    st.builds(
        Checkpoint,
        st.uuids().map(lambda one: one.hex),
        SOURCES,
        columns=st.none() | st.lists(st.text(), max_size=3).map(tuple),
    ),
    max_size=3,
)


@given(CHECKPOINTS)
def test_checkpoints_survive_the_property(checkpoints: dict[str, Checkpoint]) -> None:
    assert checkpoints_of(checkpoints_property(checkpoints)) == checkpoints


@given(CHECKPOINTS, st.dictionaries(st.text(min_size=1), SOURCES, max_size=3), st.data())
def test_a_flow_keeps_its_checkpoint_unless_it_is_restarted(current, sources, data) -> None:
    restarted = data.draw(st.lists(st.sampled_from(sorted(sources) or [""]), unique=True))
    following = next_checkpoints(current, sources, restarted=restarted)
    assert set(following) == set(current) | set(sources)
    for flow, checkpoint in following.items():
        kept = flow in current and not (flow in sources and flow in restarted)
        assert (checkpoint.id == current[flow].id if flow in current else False) == kept


def test_a_property_from_before_columns_were_recorded_is_read() -> None:
    text = f'{{"flights": {{"id": "{ID}", "sources": {{}}, "run": "r"}}}}'
    assert checkpoints_of({CHECKPOINTS_KEY: text})["flights"].columns is None


def test_columns_of_a_flow_are_recorded_and_outlive_a_reset() -> None:
    had = {"one": Checkpoint("c1", columns=("a",)), "two": Checkpoint("c2", columns=("b",))}
    kept = next_checkpoints(had, {"one": {}}, restarted=["one"])
    assert [kept[flow].columns for flow in ("one", "two")] == [("a",), ("b",)]
    following = next_checkpoints(had, {"one": {}}, restarted=[], columns={"one": ("a", "c")})
    assert following["one"] == Checkpoint("c1", columns=("a", "c"))
    assert following["two"] == had["two"]


def test_an_application_id_is_never_that_of_another_checkpoint_flow_or_table() -> None:
    ids = {
        Checkpoint(checkpoint).application(table, flow)
        for checkpoint in ("c1", "c2")
        for table in ("t1", "t2")
        for flow in ("f1", "f2")
    }
    assert len(ids) == 8


def test_a_source_that_was_recreated_or_refreshed_fully_is_reported() -> None:
    had = Checkpoint("c", {"s.a": StreamSource("id", 1), "s.b": StreamSource("id", 1)})
    now = {"s.a": StreamSource("other", 0), "s.b": StreamSource("id", 2)}
    assert had.outdated(now) == [
        "its stream input s.a was dropped and created again",
        "its stream input s.b was refreshed fully",
    ]
    assert had.outdated(dict(had.sources)) == []


def test_a_replaced_folder_is_reported_and_not_confused_with_a_table() -> None:
    a, b = StreamSource.of_folder("/a", 0), StreamSource.of_folder("/b", 0)
    table, second = StreamSource("id"), StreamSource.of_folder("/b", 1)
    had = Checkpoint("c", {"file:/a": a, "s.t": table})
    assert had.outdated({"s.t": table}) == []
    assert had.moved({"file:/a": a}) == had.moved({}) == {}
    ((text, number),) = had.moved({"file:/b": b}).items()
    assert "folder file:/a that its stream reads was replaced by file:/b" in text
    assert number == 0
    # Which log of files Spark looks into is a matter of the stream's number.
    assert had.moved({"file:/a": a, "file:/b": second}) == {}
    both = Checkpoint("c", {"file:/a": a, "file:/b": second})
    turned = {"/a": StreamSource.of_folder("/a", 1), "/b": b}
    assert sorted(both.moved(turned).values()) == [0, 1]
    assert Checkpoint("c", {"s.t": table}).moved({"/b": b}) == {}


def test_of_the_folders_of_a_flow_those_of_now_are_recorded() -> None:
    a, b, table = (
        StreamSource.of_folder("/a", 0),
        StreamSource.of_folder("/b", 0),
        StreamSource("t"),
    )
    had = {"f": Checkpoint("c", {"/a": a, "s.t": table})}
    assert next_checkpoints(had, {"f": {}}, restarted=[]) == had
    following = next_checkpoints(had, {"f": {"s.u": StreamSource("u"), "/b": b}}, restarted=[])
    assert following["f"].sources == {"s.u": StreamSource("u"), "s.t": table, "/b": b}


def test_sources_that_were_all_replaced_are_reported_by_name() -> None:
    a, b, c = StreamSource("1"), StreamSource("2"), StreamSource("3")
    one, two = Checkpoint("c", {"s.a": a}), Checkpoint("c", {"s.a": a, "s.b": b})
    assert one.outdated({"s.c": c}) == ["its stream input s.a was replaced by s.c"]
    assert one.outdated({"s.new": None}) == ["its stream input s.a was replaced by s.new"]
    assert two.outdated({"s.c": c}) == ["its stream inputs s.a, s.b were replaced by s.c"]


def test_a_removed_added_or_renamed_source_is_not_another_source() -> None:
    a, b = StreamSource("1"), StreamSource("2")
    two = Checkpoint("c", {"s.a": a, "s.b": b})
    assert two.outdated({"s.b": b}) == []
    assert two.outdated({"s.b": b, "s.c": StreamSource("3")}) == []
    assert two.outdated({"s.renamed": a}) == []
    # Renamed, and refreshed fully under the new name.
    refreshed = StreamSource("1", epoch=7)
    assert two.outdated({"s.renamed": refreshed}) == ["its stream input s.a was refreshed fully"]
    both = Checkpoint("c", {"s.a": a, "s.renamed": a})
    assert both.outdated({"s.renamed": refreshed}) == [
        "its stream input s.renamed was refreshed fully"
    ]
    # What the query itself opens, only the stream can tell.
    assert two.outdated({}) == []
    assert Checkpoint("c").outdated({"s.a": a}) == []


def test_an_epoch_never_comes_again_also_after_a_restore() -> None:
    properties: dict[str, str] = {}
    assert epoch_of(properties) == 0
    first = next_epoch(properties)
    second = next_epoch(first)
    assert 0 < epoch_of(first) < epoch_of(second)
    time.sleep(0.002)
    restored = next_epoch(properties)
    assert epoch_of(restored) not in (epoch_of(first), epoch_of(properties))


def test_paths_are_apart_for_every_table_flow_and_checkpoint() -> None:
    path = Checkpoint("c").path("store/", TABLE, "Flow")
    assert path == "store/_checkpoints/s.t/flow/c"


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["../../x", "t", ID, "", ".", "/etc", "t/..", "0" * 32 + "\n", "T"])
)
JSON = st.recursive(
    LEAVES,
    lambda some: (
        st.lists(some, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "sources", "run", "columns", "epoch", "table_id", "t"])
            | st.text(),
            some,
            max_size=4,
        )
    ),
    max_leaves=12,
)
STORED = st.text() | JSON.map(json.dumps)


@given(STORED)
def test_a_malformed_property_is_refused_by_name_and_a_good_one_gives_no_path_outside(text: str):
    checkpoints: dict[str, Checkpoint] = {}
    refused = ""
    try:
        checkpoints = checkpoints_of({CHECKPOINTS_KEY: text})
    except DatasetError as error:
        refused = str(error)
    assert not refused or f"table property {CHECKPOINTS_KEY!r} is malformed" in refused
    assert refused.isprintable()
    for flow, checkpoint in checkpoints.items():
        path = checkpoint.path("/store", TABLE, flow)
        assert posixpath.normpath(path) == path
        assert is_below(path, "/store/_checkpoints/s.t")


@given(st.dictionaries(st.text() | st.just(f"t/{ID}"), LEAVES, max_size=3).map(json.dumps) | STORED)
def test_a_malformed_hint_of_old_checkpoints_is_left_out(text: str) -> None:
    root = checkpoints_root("/store")
    for name, when in replaced_checkpoints({REPLACED_KEY: text}).items():
        flow, _, checkpoint = name.rpartition("/")
        path = f"{checkpoints_folder('/store', TABLE, flow)}/{checkpoint}"
        assert is_below(path, root)
        assert posixpath.normpath(path) == path
        assert when >= 0


def test_malformed_entries_are_named_and_the_checkpoint_that_counts_is_not_an_old_one(
    caplog,
) -> None:
    named = checkpoints_property({"t": Checkpoint(ID)})
    hint = {f"t/{ID}": 0, f"t/{OTHER}": 5, f"../t/{OTHER}": 0, f"u/{OTHER}": -1, f"v/{OTHER}": True}
    found = replaced_checkpoints({**named, REPLACED_KEY: json.dumps(hint)})
    assert found == {f"t/{OTHER}": 5}
    assert len(caplog.messages) == 4
    assert all(REPLACED_KEY in message for message in caplog.messages)
    assert any("is the valid checkpoint" in message for message in caplog.messages)


@pytest.mark.parametrize(
    "entry",
    [
        {"id": "../../../etc"},
        {"id": ID.upper()},
        {"id": ID + "\n"},
        {},
        {"id": ID, "sources": {"s.a": {"epoch": 1}}},
        {"id": ID, "sources": {"s.a": {"table_id": "x", "epoch": -1}}},
        {"id": ID, "sources": {"s.a": {"table_id": "x", "epoch": True}}},
        {"id": ID, "sources": {"s.a": {"table_id": "x", "other": 1}}},
        {"id": ID, "columns": "abc"},
        {"id": ID, "run": 7},
        {"id": ID, "path": "/etc"},
    ],
)
def test_every_field_of_a_checkpoint_is_checked(entry: object) -> None:
    with pytest.raises(DatasetError, match="malformed"):
        checkpoints_of({CHECKPOINTS_KEY: json.dumps({"t": entry})})


@pytest.mark.parametrize("flow", ["..", "", "a/b", "T", "t.", "a..b", "a b", "t\n", "x" * 129])
def test_a_flow_has_a_name_that_can_be_declared(flow: str) -> None:
    with pytest.raises(DatasetError, match="is not the name of a flow"):
        checkpoints_of({CHECKPOINTS_KEY: json.dumps({flow: {"id": ID}})})


@pytest.mark.parametrize("text", ["", "-1", "1.5", "true", "x", "1" * 5000, "[" * 100_000, "NaN"])
def test_a_malformed_epoch_is_refused_and_a_full_refresh_gives_a_good_one(text: str) -> None:
    with pytest.raises(DatasetError, match=r"'delta_pipelines.epoch' of table s.t is malformed"):
        epoch_of({EPOCH_KEY: text}, TABLE)
    assert epoch_of(next_epoch({EPOCH_KEY: text})) > 0


def test_a_full_refresh_heals_malformed_properties() -> None:
    bad = {CHECKPOINTS_KEY: "{]", REPLACED_KEY: '{"../x": 0}'}
    base = TableState(TABLE, "file:/w", "id", 4, StructType(), properties=bad, files=1)
    assert replaced_property(base, {"t": Checkpoint(ID)}, 7) == {REPLACED_KEY: "{}"}
    named = {**checkpoints_property({"t": Checkpoint(ID)}), REPLACED_KEY: f'{{"t/{OTHER}": 3}}'}
    base = TableState(TABLE, "file:/w", "id", 4, StructType(), properties=named, files=1)
    following = replaced_property(base, {"t": Checkpoint("0" * 31 + "c")}, 7)
    assert json.loads(following[REPLACED_KEY]) == {f"t/{ID}": 7, f"t/{OTHER}": 3}
