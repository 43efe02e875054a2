"""When a pipeline's modules are sent to the executors, and that the driver is left as it was."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from delta_pipelines.model.setting_names import SEND_CODE
from delta_pipelines.pipeline import Pipeline
from delta_pipelines.session.code_on_executors import declaring_modules, send_code


class Context:
    """A Spark context of a cluster; like PySpark's, it adds what it sends to the driver's path."""

    def __init__(self, master: str, folder: Path) -> None:
        self.master = master
        self._temp_dir = str(folder)
        self.sent: list[Path] = []
        self.fails = False

    def addPyFile(self, path: str) -> None:  # noqa: N802 - PySpark's name
        if self.fails:
            raise OSError("no space left")
        self.sent.append(Path(path))
        sys.path.insert(1, f"/somewhere/{Path(path).name}")


def session(context: Context, **settings: str) -> Any:
    known = {SEND_CODE: settings["send"]} if "send" in settings else {}
    return SimpleNamespace(sparkContext=context, conf=known)


@pytest.fixture
def graph() -> Any:
    shop = Pipeline("shop", schema="shop")

    @shop.materialized_view
    def orders(spark: Any) -> Any:
        return spark.range(3)

    return shop.graph()


def test_equal_code_is_sent_once_and_the_drivers_path_stays(graph: Any, tmp_path: Path) -> None:
    context, path = Context("spark://master:7077", tmp_path), list(sys.path)
    first, second = (send_code(session(context), graph) for _ in range(2))
    assert context.sent == [first] == [second]
    assert sys.path == path


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2,3]", "local-cluster[1,2,512]"])
def test_nothing_is_sent_on_one_machine(graph: Any, tmp_path: Path, master: str) -> None:
    context = Context(master, tmp_path)
    assert send_code(session(context), graph) is None
    assert not context.sent


def test_a_setting_turns_it_off(graph: Any, tmp_path: Path) -> None:
    context = Context("yarn", tmp_path)
    assert send_code(session(context, send="False"), graph) is None
    assert send_code(session(context, send="true"), graph) is not None
    assert len(context.sent) == 1


def test_what_was_not_sent_is_sent_by_the_next_plan(graph: Any, tmp_path: Path) -> None:
    context = Context("yarn", tmp_path)
    context.fails = True
    with pytest.raises(OSError, match="no space left"):
        send_code(session(context), graph)
    context.fails = False
    assert send_code(session(context), graph) is not None
    assert len(context.sent) == 1


def test_modules_of_functions_and_of_sql_texts_count(graph: Any) -> None:
    assert sys.modules[__name__] in declaring_modules(graph)
    texts = Pipeline("texts", schema="texts")
    texts.materialized_view("orders", "SELECT 1 AS n")
    assert sys.modules[__name__] in declaring_modules(texts.graph())
