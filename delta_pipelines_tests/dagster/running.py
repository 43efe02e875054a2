"""Materialize a pipeline's assets and look at what Dagster recorded."""

import dagster as dg

from delta_pipelines.dagster import build_pipeline_definitions


class Outcome:
    """One run: what was materialized, in order, with which metadata."""

    def __init__(self, result, instance):
        self.success = result.success
        self.result = result
        self.events = [
            event.step_materialization_data.materialization
            for event in result.get_asset_materialization_events()
        ]
        self.names = [event.asset_key.path[-1] for event in self.events]
        records = instance.all_logs(result.run_id)
        self.log = "\n".join(record.user_message or record.message for record in records)

    def __getitem__(self, name):
        (event,) = [event for event in self.events if event.asset_key.path[-1] == name]
        return {key: value.value for key, value in event.metadata.items()}

    def data_version(self, name):
        (event,) = [event for event in self.events if event.asset_key.path[-1] == name]
        return event.tags["dagster/data_version"]

    @property
    def failure(self):
        """The failure of the one step that failed."""
        (event,) = self.result.get_step_failure_events()
        return event.step_failure_data.user_failure_data


def materialize(pipeline, lake, instance, *, select=None, config=None, more=(), **arguments):
    """Run a pipeline's assets as the UI does, with `config` as the op's config."""
    definitions = build_pipeline_definitions(pipeline, spark=lake, **arguments)
    keys = None
    if select is not None:
        keys = [dg.AssetKey([pipeline.schema, name]) for name in select]
    result = dg.materialize(
        [*definitions.assets, *more],
        selection=keys,
        resources=definitions.resources,
        run_config={"ops": {pipeline.name: {"config": config}}} if config else None,
        instance=instance,
        raise_on_error=False,
    )
    return Outcome(result, instance)


class Repeatable:
    """A code location of one job; its runs can be repeated from their failure."""

    def __init__(self, assets, lake, instance):
        definitions = dg.Definitions(
            assets=assets,
            resources={"delta": lake},
            jobs=[dg.define_asset_job("everything")],
            executor=dg.in_process_executor,
        )
        self._repeat(definitions.resolve_job_def("everything"), instance)

    @classmethod
    def of_job(cls, job, instance):
        """Repeat the runs of a job that exists already."""
        repeatable = cls.__new__(cls)
        repeatable._repeat(job, instance)
        return repeatable

    def _repeat(self, job, instance):
        _jobs.append(job)
        self._job = dg.build_reconstructable_job(__name__, "job_of", (len(_jobs) - 1,))
        self._instance = instance

    def launch(self, **arguments):
        return self._execute(**arguments)

    def resume(self, outcome, **tags):
        """Repeat a run from its failure, with the tag that the UI adds."""
        options = dg.ReexecutionOptions.from_failure(outcome.result.run_id, self._instance)
        tags = {"dagster/is_resume_retry": "true", **tags}
        return self._execute(reexecution_options=options, tags=tags)

    def _execute(self, **arguments):
        with dg.execute_job(self._job, instance=self._instance, **arguments) as result:
            return Outcome(result, self._instance)


_jobs = []


def job_of(number):
    """A job by its number: Dagster loads what it repeats, and keeps what it has loaded."""
    return _jobs[number]
