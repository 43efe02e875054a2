import dagster as dg
import pytest
import yaml
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import ModuleTarget
from dagster_graphql.test.utils import execute_dagster_graphql

LOCATION = "delta_pipelines_tests.dagster.location"
SELECTOR = {
    "repositoryName": "__repository__",
    "repositoryLocationName": LOCATION,
    "pipelineName": "small_refresh",
}
DEFAULTS = """
query ($selector: PipelineSelector!) {
  runConfigSchemaOrError(selector: $selector) {
    __typename ... on RunConfigSchema { rootDefaultYaml }
  }
}
"""
VALID = """
query ($selector: PipelineSelector!, $config: RunConfigData!) {
  isPipelineConfigValid(pipeline: $selector, runConfigData: $config, mode: "default") {
    __typename ... on RunConfigValidationInvalid { errors { message } }
  }
}
"""


@pytest.fixture(scope="module")
def workspace():
    with (
        dg.instance_for_test() as instance,
        WorkspaceProcessContext(instance, ModuleTarget(LOCATION, None, None, LOCATION)) as process,
    ):
        yield process.create_request_context()


def ask(workspace, query, **variables):
    result = execute_dagster_graphql(workspace, query, {"selector": SELECTOR, **variables})
    assert not result.errors
    (answer,) = result.data.values()
    return answer


def test_the_launchpad_is_filled_with_the_op_config_and_nothing_else(workspace):
    answer = ask(workspace, DEFAULTS)
    assert yaml.safe_load(answer["rootDefaultYaml"]) == {
        "ops": {
            "small": {
                "config": {
                    "full_refresh": [],
                    "full_refresh_all": False,
                    "force": False,
                    "strict": False,
                }
            }
        }
    }


def test_the_launchpad_accepts_a_name_and_refuses_a_typo(workspace):
    def validate(name):
        config = {"ops": {"small": {"config": {"full_refresh": [name]}}}}
        return ask(workspace, VALID, config=config)

    assert validate("numbers")["__typename"] == "PipelineConfigValidationValid"
    refused = validate("nubmers")
    assert refused["__typename"] == "RunConfigValidationInvalid"
    assert "nubmers" in refused["errors"][0]["message"]
