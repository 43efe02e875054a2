"""What the package offers, as its contract says."""

import inspect
import subprocess
import sys
from types import ModuleType

import pytest

import delta_pipelines as dp
import delta_pipelines.dagster

ERRORS = [
    "CyclicDependencyError",
    "DatasetError",
    "DeclarationError",
    "ExpectationError",
    "MergeError",
    "PipelineError",
    "PipelineRunError",
    "PlanError",
    "SchemaChangeError",
    "SessionError",
    "StorageError",
    "UndeclaredInputError",
    "UnknownDatasetError",
]
VALUES = [
    "Batch",
    "Changes",
    "DatasetResult",
    "ExpectationResult",
    "Identifier",
    "MergeResult",
    "Pipeline",
    "RunResult",
    "Stream",
]
FUNCTIONS = ["check_session", "get_session", "merge_into"]


@pytest.mark.parametrize("module", [dp, delta_pipelines.dagster], ids=lambda m: m.__name__)
def test_all_public_names_exist_are_sorted_and_documented_with_an_example(
    module: ModuleType,
) -> None:
    assert module.__all__ == sorted(module.__all__)
    for name in module.__all__:
        assert ">>>" in (getattr(module, name).__doc__ or ""), name


def test_every_method_of_a_pipeline_is_documented_with_an_example() -> None:
    methods = inspect.getmembers(dp.Pipeline, inspect.isfunction)
    public = {name: method for name, method in methods if not name.startswith("_")}
    assert {"graph", "plan", "run", "upsert", "expect"} <= public.keys()
    for name, method in public.items():
        assert ">>>" in (method.__doc__ or ""), name


@pytest.mark.parametrize("name", [*ERRORS, *VALUES, *FUNCTIONS])
def test_the_names_of_the_contract_are_exported(name: str) -> None:
    assert name in dp.__all__


def parameters(function: object) -> dict[str, tuple[str, object]]:
    """Parameters without `self`: kind and default."""
    assert callable(function)
    return {
        name: (parameter.kind.name, parameter.default)
        for name, parameter in inspect.signature(function).parameters.items()
        if name != "self"
    }


KEYWORD, EITHER, NEEDED = "KEYWORD_ONLY", "POSITIONAL_OR_KEYWORD", inspect.Parameter.empty


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (
            dp.Pipeline.__init__,
            {
                "name": (EITHER, NEEDED),
                "schema": (KEYWORD, NEEDED),
                "catalog": (KEYWORD, None),
                "storage": (KEYWORD, None),
            },
        ),
        (dp.Pipeline.graph, {}),
        (
            dp.Pipeline.plan,
            {
                "spark": (EITHER, NEEDED),
                "refresh": (KEYWORD, None),
                "full_refresh": (KEYWORD, ()),
                "full_refresh_all": (KEYWORD, False),
            },
        ),
        (
            dp.Pipeline.run,
            {
                "spark": (EITHER, NEEDED),
                "refresh": (KEYWORD, None),
                "full_refresh": (KEYWORD, ()),
                "full_refresh_all": (KEYWORD, False),
                "force": (KEYWORD, False),
                "strict": (KEYWORD, False),
                "raise_on_error": (KEYWORD, True),
            },
        ),
        (
            dp.Pipeline.upsert,
            {
                "name": (EITHER, None),
                "keys": (KEYWORD, NEEDED),
                "sequence_by": (KEYWORD, None),
                "deletes_when": (KEYWORD, None),
            },
        ),
        (
            dp.merge_into,
            {
                "spark": (EITHER, NEEDED),
                "target": (EITHER, NEEDED),
                "source": (EITHER, NEEDED),
                "on": (EITHER, NEEDED),
                "target_alias": (KEYWORD, "t"),
                "source_alias": (KEYWORD, "s"),
                "executor": (KEYWORD, "auto"),
            },
        ),
    ],
)
def test_signatures_are_those_of_the_contract(
    function: object, expected: dict[str, tuple[str, object]]
) -> None:
    found = parameters(function)
    assert {name: found.get(name) for name in expected} == expected
    more = {name: default for name, (_, default) in found.items() if name not in expected}
    assert NEEDED not in [d for n, d in more.items() if n != "options"], "needs more arguments"


def test_the_seeds_own_level_is_reached_from_datasets() -> None:
    from delta_pipelines.datasets import DatasetManager, construct_full_refresh_set, diff_schemas

    assert parameters(construct_full_refresh_set) == {
        "tables": (EITHER, NEEDED),
        "refresh": (KEYWORD, None),
        "full_refresh": (KEYWORD, ()),
        "full_refresh_all": (KEYWORD, False),
    }
    assert list(parameters(diff_schemas)) == ["current", "target"]
    assert next(iter(parameters(DatasetManager.__init__))) == "spark"
    for name, expected in {
        "materialize_datasets": ["graph", "context"],
        "materialize_table": ["graph", "table", "is_full_refresh", "context"],
        "materialize_views": ["graph", "context"],
        "materialize_view": ["view", "flow"],
    }.items():
        assert list(parameters(getattr(DatasetManager, name)))[: len(expected)] == expected


def test_a_name_that_datasets_does_not_have_is_an_attribute_error() -> None:
    import delta_pipelines.datasets

    with pytest.raises(AttributeError, match="Nonsense"):
        delta_pipelines.datasets.Nonsense  # noqa: B018


def test_a_result_has_the_fields_of_the_contract() -> None:
    fields = ["name", "status", "action", "reason", "version", "rows", "metrics", "error"]
    assert set(fields) <= set(inspect.signature(dp.DatasetResult).parameters)
    assert list(inspect.signature(dp.RunResult).parameters) == ["run_id", "success", "results"]


WITHOUT_JVM = """
import sys
import delta_pipelines as dp

p = dp.Pipeline("p", schema="s")
p.source("landing.raw")

@p.materialized_view
def t(raw): ...

p.view("v", "SELECT * FROM t")
assert [str(i) for i in p.graph().order] == ["s.t", "s.v"]

from pyspark import SparkContext
assert SparkContext._gateway is None, "a JVM was started"
assert "dagster" not in sys.modules, "the core imports dagster"
"""


def test_importing_declaring_and_resolving_start_no_jvm_and_import_no_dagster() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_JVM],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "", "PYTHONPATH": ":".join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
