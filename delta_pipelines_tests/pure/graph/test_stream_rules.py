"""Rules of streaming tables, their flows and inputs, checked without a JVM."""

import pytest

import delta_pipelines as dp
from delta_pipelines.errors import DeclarationError, UnknownDatasetError
from delta_pipelines.user_code.definition_hash import definition_hash


def pipeline() -> dp.Pipeline:
    made = dp.Pipeline("p", schema="s")
    made.source("raw.landing")
    return made


def problem(made: dp.Pipeline) -> str:
    with pytest.raises(DeclarationError) as caught:
        made.graph()
    return str(caught.value)


def test_a_plain_name_is_a_stream_in_a_streaming_table_and_a_batch_elsewhere() -> None:
    made = pipeline()

    @made.streaming_table
    def events(landing):
        return landing

    @made.materialized_view
    def copied(events):
        return events

    graph = made.graph()
    assert graph.tables["events"].kind == "streaming_table"
    assert graph.tables["events"].keeps_rows
    assert graph.flows["events"].streams == {"landing": dp.Stream("landing")}
    assert graph.flows["copied"].streams == {}


def test_batch_look_ups_stand_beside_streams() -> None:
    made = pipeline()
    made.source("raw.names")

    @made.streaming_table(inputs={"names": dp.Batch("raw.names")})
    def events(landing, names):
        return landing

    assert list(made.graph().flows["events"].streams) == ["landing"]


def test_append_flows_are_found_by_name_and_by_target() -> None:
    made = pipeline()
    made.create_streaming_table("events")

    @made.append_flow(target="events")
    def one(landing):
        return landing

    @made.append_flow(target="events", name="two")
    def named_otherwise(landing):
        return landing

    graph = made.graph()
    target = graph.tables["events"].identifier
    assert [flow.name for flow in graph.flows_of(target)] == ["one", "two"]
    assert graph.flows["two"].target == target
    assert [str(i) for i in graph.inputs(target)] == ["raw.landing"]


def test_a_streaming_table_may_have_its_own_query_and_append_flows() -> None:
    made = pipeline()

    @made.streaming_table
    def events(landing):
        return landing

    @made.append_flow(target="events")
    def more(landing):
        return landing

    flows = made.graph().flows_of(made.graph().tables["events"].identifier)
    assert [flow.name for flow in flows] == ["events", "more"]


def test_a_streaming_table_that_nothing_fills_is_refused() -> None:
    made = pipeline()
    made.create_streaming_table("events")
    assert "append_flow(target='events')" in problem(made)


@pytest.mark.parametrize(
    ("target", "says"),
    [("evnts", "did you mean 'events'"), ("copied", "append flows fill only streaming tables")],
)
def test_an_append_flow_needs_a_streaming_table(target: str, says: str) -> None:
    made = pipeline()
    made.materialized_view("copied", "SELECT * FROM raw.landing")

    @made.streaming_table
    def events(landing):
        return landing

    @made.append_flow(target=target)
    def more(landing):
        return landing

    assert says in problem(made)


def test_an_append_flow_needs_a_name_of_its_own() -> None:
    made = pipeline()

    @made.streaming_table
    def events(landing):
        return landing

    @made.append_flow(target="events", name="Events")
    def more(landing):
        return landing

    assert "already taken" in problem(made)


def test_streaming_what_is_overwritten_is_refused_with_the_choices() -> None:
    made = pipeline()
    made.materialized_view("copied", "SELECT * FROM raw.landing")

    @made.streaming_table
    def events(copied):
        return copied

    text = problem(made)
    for way in ("dp.Changes('copied')", "dp.Batch('copied')", "skip_change_commits=True"):
        assert way in text


@pytest.mark.parametrize(
    "chosen", [dp.Stream("copied", skip_change_commits=True), dp.Changes("copied")]
)
def test_the_user_may_choose_how_to_stream_it(chosen: dp.Stream | dp.Changes) -> None:
    made = pipeline()
    feed = {"delta.enableChangeDataFeed": "true"}
    made.materialized_view("copied", "SELECT * FROM raw.landing", table_properties=feed)

    @made.streaming_table(inputs={"copied": chosen})
    def events(copied):
        return copied

    assert made.graph().flows["events"].streams == {"copied": chosen}


def test_changes_need_a_change_feed() -> None:
    made = pipeline()
    made.materialized_view("copied", "SELECT * FROM raw.landing")

    @made.streaming_table(inputs={"copied": dp.Changes("copied")})
    def events(copied):
        return copied

    assert "delta.enableChangeDataFeed" in problem(made)


@pytest.mark.parametrize("bound", [dp.Stream("raw.landing"), dp.Changes("raw.landing")])
def test_batch_kinds_take_no_streams(bound: dp.Stream | dp.Changes) -> None:
    made = pipeline()

    @made.materialized_view(inputs={"new": bound})
    def copied(new):
        return new

    assert "reads batches" in problem(made)


def test_a_view_is_not_a_stream() -> None:
    made = pipeline()
    made.view("shown", "SELECT * FROM raw.landing")

    @made.streaming_table
    def events(shown):
        return shown

    assert "a view cannot be streamed" in problem(made)


def test_a_temporary_view_is_put_in_as_it_is_written() -> None:
    made = pipeline()

    @made.temporary_view(inputs={"new": dp.Stream("raw.landing")})
    def cleaned(new):
        return new

    @made.streaming_table
    def events(cleaned):
        return cleaned

    graph = made.graph()
    assert graph.flows["events"].streams == {}
    assert graph.flows["cleaned"].streams == {"new": dp.Stream("raw.landing")}

    @made.streaming_table(inputs={"c": dp.Stream("cleaned")})
    def wrong(c):
        return c

    assert "decides itself how its inputs are read" in problem(made)


def test_an_upsert_may_read_a_stream() -> None:
    made = pipeline()

    @made.upsert(keys=["id"], inputs={"new": dp.Stream("raw.landing")})
    def people(new):
        return new

    assert made.graph().flows["people"].streams == {"new": dp.Stream("raw.landing")}


def test_a_protected_table_behind_one_that_can_be_wiped_is_worth_a_warning() -> None:
    made = pipeline()

    @made.streaming_table
    def events(landing):
        return landing

    @made.streaming_table(table_properties={"pipelines.reset.allowed": "false"})
    def kept(events):
        return events

    assert "checkpoint of this dataset has to be reset" in " ".join(made.graph().warnings)


def test_how_an_input_is_read_counts_in_the_definition() -> None:
    hashes = set()
    for bound in ("raw.landing", dp.Batch("raw.landing"), dp.Stream("x"), dp.Changes("x")):
        made = pipeline()

        @made.streaming_table(inputs={"new": bound})
        def events(new):
            return new

        hashes.add(definition_hash(made.declarations[-1]))
    assert len(hashes) == 3


@pytest.mark.parametrize("bad", [7, dp.Stream(7), dp.Changes(None), ["landing"]])
def test_inputs_of_a_wrong_type_are_refused_at_the_declaration(bad: object) -> None:
    made = pipeline()
    with pytest.raises(DeclarationError):

        @made.streaming_table(inputs={"new": bad})
        def events(new):
            return new


def test_misplaced_options_of_a_table_without_a_query_are_refused() -> None:
    with pytest.raises(DeclarationError, match="append_flow"):
        pipeline().create_streaming_table("t", inputs={"a": "b"})


def test_an_unknown_target_alone_is_an_unknown_dataset() -> None:
    made = pipeline()

    @made.append_flow(target="nowhere")
    def more(landing):
        return landing

    with pytest.raises(UnknownDatasetError):
        made.graph()
