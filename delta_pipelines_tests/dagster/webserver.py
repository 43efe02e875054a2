"""A real `dagster dev` in a process of its own, spoken to over GraphQL."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import requests

ROOT = Path(__file__).parents[2]
LOCATION = "delta_pipelines_tests.dagster.location"
INSTANCE = """
telemetry: {enabled: false}
run_coordinator:
  module: dagster._core.run_coordinator
  class: DefaultRunCoordinator
"""
QUEUED = """
telemetry: {enabled: false}
concurrency: {runs: {max_concurrent_runs: 1}}
"""
ENDED = ("SUCCESS", "FAILURE", "CANCELED")
STARTED = ("STARTED", *ENDED)

LAUNCH = """
mutation ($parameters: ExecutionParams!) {
  launchRun(executionParams: $parameters) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on RunConfigValidationInvalid { errors { message } }
    ... on PythonError { message }
  }
}
"""
RUN = """
query ($run: ID!) { runOrError(runId: $run) { ... on Run {
  status
  assetMaterializations { assetKey { path } metadataEntries {
    label
    ... on IntMetadataEntry { intValue }
    ... on TextMetadataEntry { text }
  } }
} } }
"""
RUNS = """
query ($tags: [ExecutionTag!]) {
  runsOrError(filter: {tags: $tags}) { ... on Runs { results { runId status } } }
}
"""
START_SCHEDULE = """
mutation ($selector: ScheduleSelector!) {
  startSchedule(scheduleSelector: $selector) {
    ... on ScheduleStateResult { scheduleState { id } }
    ... on PythonError { message }
  }
}
"""
STOP_SCHEDULE = """
mutation ($id: String!) { stopRunningSchedule(id: $id) {
  ... on ScheduleStateResult { scheduleState { status } }
} }
"""
START_SENSOR = """
mutation ($selector: SensorSelector!) {
  startSensor(sensorSelector: $selector) {
    ... on Sensor { sensorState { id } }
    ... on PythonError { message }
  }
}
"""
STOP_SENSOR = """
mutation ($id: String!) { stopSensor(id: $id) {
  ... on StopSensorMutationResult { instigationState { status } }
} }
"""
RETRY = """
mutation ($parameters: ReexecutionParams!) {
  launchRunReexecution(reexecutionParams: $parameters) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on PythonError { message }
  }
}
"""
BACKFILL = """
mutation ($parameters: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $parameters) {
    __typename
    ... on LaunchBackfillSuccess { backfillId }
    ... on PythonError { message }
  }
}
"""
BACKFILL_STATUS = """
query ($id: String!) { partitionBackfillOrError(backfillId: $id) {
  ... on PartitionBackfill { status error { message } }
  ... on PythonError { message }
} }
"""
PARTITIONS = """
query ($key: AssetKeyInput!) { assetNodeOrError(assetKey: $key) { ... on AssetNode {
  partitionStats { numMaterialized numFailed numPartitions }
} } }
"""
TERMINATE = "mutation ($run: String!) { terminateRun(runId: $run) { __typename } }"


class Webserver:
    """`dagster dev` over a scratch home; use it in a `with` block."""

    def __init__(self, home, *, location=LOCATION, instance=INSTANCE, **environment):
        self.home, self.location = home, location
        (home / "dagster.yaml").write_text(instance)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._environment = {**os.environ, "DAGSTER_HOME": str(home), **environment}

    def __enter__(self):
        self._log = (self.home / "dev.log").open("w")
        command = ["dagster", "dev", "-m", self.location, "-h", "127.0.0.1", "-p", str(self.port)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=ROOT,
            env=self._environment,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        try:
            self._until(self._serves, 180, "server_info")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(60)
        finally:
            self._process.kill()
            self._process.wait()
            self._log.close()

    def ask(self, query, **variables):
        """The one answer of a GraphQL query."""
        body = {"query": query, "variables": variables}
        answer = requests.post(f"http://127.0.0.1:{self.port}/graphql", json=body, timeout=60)
        answered = answer.json()
        assert not answered.get("errors"), answered["errors"]
        (value,) = answered["data"].values()
        return value

    def launch(self, job, config=None, *, assets=None, tags=None):
        """Launch a job; gives the answer, which has no `run` when the config is refused.

        With `assets`, the job is the one that the UI starts for assets of the graph.
        """
        selector = {
            "repositoryName": "__repository__",
            "repositoryLocationName": self.location,
            "jobName": job,
        }
        parameters = {"selector": selector, "runConfigData": config or {}, "mode": "default"}
        if assets is not None:
            selector["assetSelection"] = [{"path": path} for path in assets]
        if tags is not None:
            listed = [{"key": key, "value": value} for key, value in tags.items()]
            parameters["executionMetadata"] = {"tags": listed}
        return self.ask(LAUNCH, parameters=parameters)

    def backfill(self, assets, partitions=None, *, seconds=600):
        """Backfill partitions of assets, or all; gives its status, and its runs by their status."""
        parameters = {"assetSelection": [{"path": path} for path in assets]}
        if partitions is None:
            parameters["allPartitions"] = True
        else:
            parameters["partitionNames"] = partitions
        launched = self.ask(BACKFILL, parameters=parameters)
        assert launched["__typename"] == "LaunchBackfillSuccess", launched
        backfill_id = launched["backfillId"]

        def status():
            return self.ask(BACKFILL_STATUS, id=backfill_id)["status"]

        self._until(lambda: status() not in ("REQUESTED", "FAILING"), seconds, "end of backfill")
        runs = self.ask(RUNS, tags=[{"key": "dagster/backfill", "value": backfill_id}])["results"]
        return status(), sorted(run["status"] for run in runs), [run["runId"] for run in runs]

    def partitions(self, path):
        """How many partitions of an asset are materialized, failed and there."""
        stats = self.ask(PARTITIONS, key={"path": path})["partitionStats"]
        return stats["numMaterialized"], stats["numFailed"], stats["numPartitions"]

    def run(self, job, config=None, *, seconds=300):
        """Launch a job and wait for its end; gives status and metadata by table name."""
        launched = self.launch(job, config)
        assert launched["__typename"] == "LaunchRunSuccess", launched
        return self.wait(launched["run"]["runId"], seconds)

    def wait(self, run_id, seconds=300):
        """Wait for a run's end; gives status and metadata by table name."""
        self._until(lambda: self.ask(RUN, run=run_id)["status"] in ENDED, seconds, "end of the run")
        ended = self.ask(RUN, run=run_id)
        metadata = {
            event["assetKey"]["path"][-1]: {
                entry["label"]: entry.get("intValue", entry.get("text"))
                for entry in event["metadataEntries"]
            }
            for event in ended["assetMaterializations"]
        }
        return ended["status"], metadata

    def turn_on(self, kind, name):
        """Turn a `schedule` or `sensor` on; gives the id by which it is turned off."""
        selector = {
            "repositoryName": "__repository__",
            "repositoryLocationName": self.location,
            f"{kind}Name": name,
        }
        started = self.ask(
            START_SCHEDULE if kind == "schedule" else START_SENSOR, selector=selector
        )
        assert f"{kind}State" in started, started
        return started[f"{kind}State"]["id"]

    def turn_off(self, kind, state_id):
        """Turn a `schedule` or `sensor` off."""
        self.ask(STOP_SCHEDULE if kind == "schedule" else STOP_SENSOR, id=state_id)

    def run_of(self, kind, name, seconds=120):
        """Wait until a run of a schedule or sensor has started; gives the first one's id."""
        tags = [{"key": f"dagster/{kind}_name", "value": name}]

        def launched():
            return [run for run in self.ask(RUNS, tags=tags)["results"] if run["status"] in STARTED]

        # Turned off while it still launches a run, a schedule is on again afterwards.
        self._until(launched, seconds, f"run of {name}")
        return launched()[-1]["runId"]

    def retry(self, run_id, strategy):
        """Repeat a run from its failure as the UI does, and wait for the new run's end."""
        parameters = {"parentRunId": run_id, "strategy": strategy}
        launched = self.ask(RETRY, parameters=parameters)
        assert launched["__typename"] == "LaunchRunSuccess", launched
        return self.wait(launched["run"]["runId"])

    def _serves(self):
        try:
            return requests.get(f"http://127.0.0.1:{self.port}/server_info", timeout=5).ok
        except requests.ConnectionError:
            return False

    def _until(self, condition, seconds, what):
        end = time.monotonic() + seconds
        while not condition():
            assert self._process.poll() is None, (self.home / "dev.log").read_text()[-3000:]
            assert time.monotonic() < end, f"no {what} within {seconds} s"
            time.sleep(0.3)
