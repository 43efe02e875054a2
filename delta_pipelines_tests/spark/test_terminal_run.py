"""`delta-pipelines run`, in the suite's own session."""

import io
import re

from rich.console import Console

import delta_pipelines as dp
from delta_pipelines.cli.run_view import run_in_terminal
from delta_pipelines.flows.stream_refresh import StreamRun
from delta_pipelines.planning.refresh_request import RefreshRequest
from delta_pipelines_tests.support.pipelines import rows_of, scratch


def no_stream(*_: object) -> None:
    raise AssertionError("a stream was started")


def test_a_checkpoint_is_reset_and_the_rows_stay(spark, schema, monkeypatch):
    spark.sql(f"CREATE TABLE {schema}.landing USING delta AS SELECT 1 AS id")
    pipeline = scratch(schema)
    pipeline.source(f"{schema}.landing")
    pipeline.create_streaming_table("t")

    @pipeline.append_flow(target="t", inputs={"new": dp.Stream(f"{schema}.landing")})
    def landed(new):
        return new

    def run(**options):
        output = io.StringIO()
        console = Console(file=output, width=120)
        assert run_in_terminal(pipeline, spark, console, RefreshRequest(**options))
        return output.getvalue()

    assert re.search(r"t +completed +create +\+1 ", run())
    with monkeypatch.context() as patched:
        patched.setattr(StreamRun, "run", no_stream)
        assert "its streams have nothing new" in run()
    assert re.search(r"t +completed +refresh +\+1 ", run(reset_checkpoints=("landed",)))
    assert rows_of(spark, f"{schema}.t") == [(1,), (1,)]
