import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CPU_SECONDS = 6.0
"""Twice what loading may cost, because a busy machine doubles CPU seconds too."""

PROBE = """
import importlib, json, os, resource, sys
import dagster as dg
module = importlib.import_module(sys.argv[1])
dg.Definitions.validate_loadable(module.defs)
module.defs.get_repository_def().get_all_jobs()
usage = resource.getrusage(resource.RUSAGE_SELF)
from pyspark import SparkContext
try:
    os.waitpid(-1, os.WNOHANG)
    children = True
except ChildProcessError:
    children = False
print(json.dumps({
    "cpu": usage.ru_utime + usage.ru_stime,
    "gateway": SparkContext._gateway is not None,
    "children": children,
    "assets": len(list(module.defs.resolve_all_asset_specs())),
}))
"""


@pytest.mark.parametrize(
    "module", ["delta_pipelines_tests.dagster.location", "examples.aviation.definitions"]
)
def test_loading_a_code_location_starts_no_jvm_and_is_quick(module, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error::dagster.BetaWarning", "-c", PROBE, module],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            # A loader that starts Java would have to find it here, and fail.
            "JAVA_HOME": str(tmp_path),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    probe = json.loads(done.stdout.splitlines()[-1])
    assert probe["assets"] > 3
    assert not probe["gateway"]
    assert not probe["children"]
    assert probe["cpu"] < CPU_SECONDS
    assert not list(tmp_path.iterdir())
