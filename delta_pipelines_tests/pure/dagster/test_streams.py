import dagster as dg
import pytest

import delta_pipelines as dp
from delta_pipelines.dagster import DeltaPipelineResource, build_pipeline_definitions
from delta_pipelines.dagster.run.earlier_attempts import Attempt
from delta_pipelines.dagster.run.metadata import row_counts
from delta_pipelines.dagster.run.step_request import step_request
from delta_pipelines.dagster.run_config import read_request
from delta_pipelines.dagster.specs.asset_keys import reset_names
from delta_pipelines.dagster.specs.asset_specs import build_specs
from delta_pipelines.model.checkpoints import Checkpoint
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.results import DatasetResult
from delta_pipelines.planning.refresh_request import RefreshRequest


def events_pipeline():
    events = dp.Pipeline("events", schema="events")
    events.create_streaming_table("clicks", comment="From everywhere")

    @events.append_flow(target="clicks")
    def from_web(spark):
        return spark.readStream.text("web")

    @events.append_flow(target="clicks", name="from_app")
    def app_clicks(spark):
        return spark.readStream.text("app")

    @events.streaming_table
    def visits(clicks):
        return clicks

    @events.upsert(keys=["value"], inputs={"new": dp.Stream("visits")})
    def visitors(new):
        return new

    @events.upsert(keys=["value"])
    def known(visitors):
        return visitors

    events.materialized_view("counted", "SELECT count(*) AS n FROM known")
    return events


EVENTS = events_pipeline()
GRAPH = EVENTS.graph()


@pytest.fixture(scope="module")
def job():
    definitions = build_pipeline_definitions(
        EVENTS, spark=DeltaPipelineResource(warehouse="unused")
    )
    return definitions.resolve_job_def("events_refresh")


def config(**fields):
    return {"ops": {"events": {"config": fields}}}


def test_the_config_may_name_append_flows_and_tables_with_streams(job):
    every = ["clicks", "visits", "visitors", "from_web", "from_app"]
    assert list(reset_names(GRAPH)) == every
    assert dg.validate_run_config(job, config(reset_checkpoints=every))
    defaults = dg.validate_run_config(job, {})["ops"]["events"]["config"]
    assert defaults["reset_checkpoints"] == []


@pytest.mark.parametrize("name", ["known", "counted", "form_web", "app_clicks"])
def test_a_name_without_a_stream_is_refused_before_launch(job, name):
    with pytest.raises(dg.DagsterInvalidConfigError):
        dg.validate_run_config(job, config(reset_checkpoints=[name]))


def test_requests_of_split_steps_are_united_in_their_resets_too():
    one, two = (read_request({"reset_checkpoints": [name]}) for name in ("clicks", "visits"))
    assert (one | two).reset_checkpoints == ("clicks", "visits")


def test_a_table_shows_the_code_of_each_append_flow_and_links_to_each():
    specs = {spec.key.path[-1]: spec for spec in build_specs(EVENTS, None).assets}
    description = specs["clicks"].description
    assert description.startswith("From everywhere\n\n**Append flow `from_web`**\n\n```python")
    assert 'spark.readStream.text("web")' in description
    assert description.index("**Append flow `from_app`**") < description.index('text("app")')
    references = specs["clicks"].metadata["dagster/code_references"].code_references
    assert [reference.label for reference in references] == ["clicks", "from_web", "from_app"]
    assert len({reference.line_number for reference in references}) == 3
    assert specs["clicks"].kinds == specs["visits"].kinds == {"spark", "deltalake", "streaming"}
    assert specs["visitors"].kinds == {"spark", "deltalake", "table"}
    assert "Append flow" not in specs["visits"].description


def streamed(**fields):
    fields = {"status": "completed", "action": "refresh", "reason": "", "metrics": {}, **fields}
    return DatasetResult("clicks", kind="streaming_table", identifier=CLICKS, **fields)


CLICKS, VISITS, VISITORS = (Identifier(None, "events", n) for n in ("clicks", "visits", "visitors"))


def test_a_stream_reports_its_batches_and_rows_as_numbers():
    metrics = {"numOutputRows": 12, "numBatches": 3, "numFiles": 3}
    assert row_counts(streamed(metrics=metrics)) == {"rows_written": 12, "batches": 3}
    assert row_counts(streamed(status="unchanged", action="none")) == {"rows_written": 0}


def attempt(run, **request):
    return Attempt(run, read_request(request), frozenset())


def started_by(run, *flows):
    return lambda table: {flow: Checkpoint(run=run) for flow in flows}


def no_look(table):
    raise AssertionError(f"{table} was looked up")


def test_a_first_attempt_does_what_was_asked_and_looks_nothing_up():
    chosen = (CLICKS, VISITS)
    work, remarks = step_request(GRAPH, chosen, RefreshRequest(full_refresh_all=True), (), no_look)
    assert work.full_refresh == ("events.clicks", "events.visits")
    assert remarks == ()
    asked = read_request(
        {"full_refresh": ["clicks", "counted"], "reset_checkpoints": ["from_web", "visitors"]}
    )
    work, remarks = step_request(GRAPH, chosen, asked, (), no_look)
    assert work.refresh == ("events.clicks", "events.visits")
    assert work.full_refresh == ("events.clicks",)
    assert work.reset_checkpoints == ("from_web",)
    assert remarks == (
        "Not selected here, so not refreshed fully: counted.",
        "Not selected here, so no checkpoint is reset: visitors.",
    )


FULLY = {"full_refresh": ["clicks"]}
RESET = {"reset_checkpoints": ["from_web"]}


@pytest.mark.parametrize(
    ("request_", "before", "stored", "repeated"),
    [
        (FULLY, [attempt("r1", **FULLY)], started_by("r1", "from_web", "from_app"), False),
        (
            FULLY,
            [attempt("r1", full_refresh_all=True)],
            started_by("r1", "from_web", "from_app"),
            0,
        ),
        # The wiping commit did not land: another run, or the first one, began these checkpoints.
        (FULLY, [attempt("r1", **FULLY)], started_by("r0", "from_web", "from_app"), True),
        # A flow that is new since then began alone.
        (FULLY, [attempt("r1", **FULLY)], started_by("r1", "from_web"), True),
        # The parent made the table and was not asked to wipe it.
        (FULLY, [attempt("r1")], started_by("r1", "from_web", "from_app"), True),
        (
            FULLY,
            [attempt("r2"), attempt("r1", **FULLY)],
            started_by("r1", "from_web", "from_app"),
            0,
        ),
        (RESET, [attempt("r1", **RESET)], started_by("r1", "from_web"), False),
        (RESET, [attempt("r1", **RESET)], started_by("r0", "from_web"), True),
    ],
)
def test_a_retry_wipes_and_resets_only_what_its_parents_did_not(request_, before, stored, repeated):
    work, remarks = step_request(GRAPH, (CLICKS,), read_request(request_), before, stored)
    assert bool(work.full_refresh or work.reset_checkpoints) == bool(repeated)
    assert bool(remarks) != bool(repeated)
