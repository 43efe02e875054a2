"""The `delta-pipelines` command as users start it, with a Spark of its own."""

import os
import subprocess
import sys
from pathlib import Path

SHOP = """
from pyspark.sql.functions import udf

import delta_pipelines as dp
from prices import doubled
from taxes.rates import RATE, taxed

shop = dp.Pipeline("shop", schema="shop")


def price(n):
    return taxed(doubled(n)) + RATE


@shop.materialized_view
def orders(spark):
    return spark.range(0, 3, 1, 1).select(udf(price, "long")("id").alias("n"))


@shop.materialized_view
def countries(spark):
    return spark.read.csv("landing/*.csv")


def broken(n):
    return 1 // (n - n)


@shop.materialized_view
def wrong(orders):
    return orders.select(udf(broken, "int")("n").alias("n"))
"""


def test_a_file_in_a_folder_runs_with_the_files_around_it_and_without_javas_stacks(
    tmp_path: Path,
) -> None:
    """Also on Spark's workers; a pattern of files makes Spark warn with a stack, of nothing.

    A function that fails makes Spark print the same stack six times.
    """
    (tmp_path / "my pipelines").mkdir()
    (tmp_path / "my pipelines" / "shop.py").write_text(SHOP)
    (tmp_path / "my pipelines" / "prices.py").write_text("def doubled(n):\n    return n * 2\n")
    (tmp_path / "taxes").mkdir()
    (tmp_path / "taxes" / "rates.py").write_text(
        "RATE = 1\n\n\ndef taxed(n):\n    return n + RATE\n"
    )
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "a.csv").write_text("GB\nDE\n")
    main = "from delta_pipelines.cli.commands import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", main, "run", "my pipelines/shop.py:shop"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "completed  shop.orders" in ended.stdout
    assert "completed  shop.countries" in ended.stdout
    assert "failed: ZeroDivisionError" in ended.stdout
    assert "my pipelines/shop.py:26, in broken" in "".join(ended.stdout.splitlines())
    assert "\tat " not in ended.stderr
    assert ended.stderr.count("Lost task") == 1
