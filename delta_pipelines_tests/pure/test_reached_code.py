"""What counts as a function's code: whatever of the user's own it reaches, and nothing else."""

import importlib
import itertools
import subprocess
import sys
import time
from pathlib import Path

import pytest

from delta_pipelines.own_code import _is_own_root
from delta_pipelines.reached_code import MAX_ITEMS, reached_code

_numbers = itertools.count()

FILES = {
    "__init__.py": "",
    "pipeline.py": """
import functools
import json
from decimal import Decimal
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType
from PACKAGE import places
from PACKAGE.cleaning import Cleaner, cleaned, unused

RATE = Decimal("1.5")
COLUMNS = {"a": ["x", "y"], "b": {"u", "v", "w"}}
double = F.udf(lambda n: n * 2, IntegerType())

def rows(spark, limit=10, *, kind="csv"):
    from PACKAGE.late import late_filter
    frame = cleaned(spark.read.format(kind).load(places.FOLDER), RATE, COLUMNS)
    frame = Cleaner(3).clean(frame).withColumn("n", double("n"))
    return late_filter(frame).limit(limit)

def made(factor):
    def inner(spark):
        return spark.range(factor)
    return inner
closed = made(4)
wrapped = functools.lru_cache(rows)
""",
    "places.py": "from pathlib import Path\nFOLDER = Path('landing')\nOTHER = 1\n",
    "cleaning.py": """
from PACKAGE.deep import trimmed

class Base:
    def clean(self, frame):
        return frame.where("a > 0")

class Cleaner(Base):
    def __init__(self, n):
        self.n = n

def cleaned(frame, rate, columns):
    '''Says what it does.'''
    return trimmed(frame).select(*columns["a"])

def unused():
    return 1
""",
    "deep.py": "WIDTH = 7\ndef trimmed(frame):\n    return frame.limit(WIDTH)\n",
    "late.py": "from PACKAGE import later\ndef late_filter(frame):\n    return frame\n",
    "later.py": "LAST = 1\n",
}


def package(folder: Path, monkeypatch, changes=(), files=FILES):
    """Write the package with replaced texts, and import its pipeline module."""
    name = "reached"
    for known in [m for m in sys.modules if m.split(".")[0] == name]:
        monkeypatch.delitem(sys.modules, known)
    root = folder / str(next(_numbers))
    (root / name).mkdir(parents=True)
    for file, text in files.items():
        for where, old, new in changes:
            if where == file:
                assert old in text, (where, old)
                text = text.replace(old, new)
        (root / name / file).write_text(text.replace("PACKAGE", name), encoding="utf-8")
    monkeypatch.syspath_prepend(str(root))
    return importlib.import_module(f"{name}.pipeline")


@pytest.mark.parametrize(
    "change",
    [
        ("pipeline.py", ".limit(limit)", ".limit(limit + 1)"),
        ("pipeline.py", "limit=10", "limit=11"),
        ("pipeline.py", 'kind="csv"', 'kind="json"'),
        ("pipeline.py", '"1.5"', '"1.50"'),
        ("pipeline.py", '"v"', '"z"'),
        ("pipeline.py", "n * 2", "n * 3"),
        ("pipeline.py", "n * 2, IntegerType()", "n * 2"),
        ("pipeline.py", "Cleaner(3)", "Cleaner(4)"),
        ("places.py", "landing", "elsewhere"),
        ("cleaning.py", "a > 0", "a > 1"),
        ("cleaning.py", 'columns["a"]', 'columns["b"]'),
        ("cleaning.py", "self.n = n", "self.n = n + 1"),
        ("deep.py", "WIDTH = 7", "WIDTH = 8"),
        ("deep.py", "limit(WIDTH)", "limit(2 * WIDTH)"),
        ("late.py", "return frame", "return frame.distinct()"),
        ("later.py", "LAST = 1", "LAST = 2"),
    ],
    ids=str,
)
def test_a_change_of_whatever_is_reached_shows(tmp_path, monkeypatch, change) -> None:
    before = reached_code(package(tmp_path, monkeypatch).rows)
    after = reached_code(package(tmp_path, monkeypatch, [change]).rows)
    assert before.text != after.text
    assert before.unseen == after.unseen == ()


@pytest.mark.parametrize(
    "change",
    [
        ("pipeline.py", "import json", "import json\n\n# moved down\n\n"),
        ("pipeline.py", "return spark.range(factor)", "return spark.range(factor + 1)"),
        ("cleaning.py", "Says what it does.", "Says it in other words."),
        ("cleaning.py", "def unused():\n    return 1", "def unused():\n    return 2"),
        ("places.py", "OTHER = 1", "OTHER = 2"),
        ("pipeline.py", '{"u", "v", "w"}', '{"w", "u", "v"}'),
    ],
    ids=str,
)
def test_what_is_not_reached_or_decides_nothing_does_not_show(
    tmp_path, monkeypatch, change
) -> None:
    before = reached_code(package(tmp_path, monkeypatch).rows).text
    assert reached_code(package(tmp_path, monkeypatch, [change]).rows).text == before


def test_closures_and_caches_are_looked_into(tmp_path, monkeypatch) -> None:
    one = package(tmp_path, monkeypatch)
    two = package(tmp_path, monkeypatch, [("pipeline.py", "made(4)", "made(5)")])
    assert reached_code(one.closed).text != reached_code(two.closed).text
    other = package(tmp_path, monkeypatch, [("deep.py", "WIDTH = 7", "WIDTH = 8")])
    assert reached_code(one.wrapped).text != reached_code(other.wrapped).text


def test_a_variable_that_installed_code_sets_is_told(tmp_path, monkeypatch) -> None:
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "installed_part.py").write_text(
        "def make(limit):\n    def rows(x):\n        nonlocal limit\n"
        "        limit = limit or 10\n        return limit\n    return rows\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    make = importlib.import_module("installed_part").make
    monkeypatch.delitem(sys.modules, "installed_part")
    assert reached_code(make(1)).text != reached_code(make(2)).text


def test_an_object_of_a_library_given_to_its_decorator_is_unseen(tmp_path, monkeypatch) -> None:
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "opaque_lib.py").write_text(
        f"{LIBRARY}\nclass Policy:\n    def __init__(self, n):\n        self.n = n\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    library = importlib.import_module("opaque_lib")
    monkeypatch.delitem(sys.modules, "opaque_lib")

    @library.given(library.Policy(1))
    def rows(x):
        return x

    assert reached_code(rows).unseen == ("value",)


def test_code_that_reaches_what_nobody_can_name_is_told_as_unseen() -> None:
    assert reached_code(lambda name: globals()[name]).unseen == ("globals()",)
    assert reached_code(lambda name: importlib.import_module(name)).unseen == ("import_module()",)
    assert reached_code(lambda frame: frame.eval("a > 1")).unseen == ()


def test_an_edit_under_a_running_process_is_not_what_the_process_runs(
    tmp_path, monkeypatch
) -> None:
    module = package(tmp_path, monkeypatch)
    before = reached_code(module.rows).text
    file = Path(module.__file__).with_name("cleaning.py")
    file.write_text(file.read_text().replace("a > 0", "a > 100"))
    assert reached_code(module.rows).text == before


def test_modules_beside_a_single_file_are_its_own_and_libraries_are_not(
    tmp_path, monkeypatch
) -> None:
    def hashed(width: int) -> str:
        folder = tmp_path / str(next(_numbers))
        folder.mkdir()
        (folder / "flat_pipeline.py").write_text(
            "import pytest, json\nfrom flat_part import part\n"
            "def rows(spark):\n    pytest.raises, json.dumps\n    return part(spark)\n"
        )
        (folder / "flat_part.py").write_text(f"def part(spark):\n    return spark.range({width})\n")
        for name in ("flat_pipeline", "flat_part"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.syspath_prepend(str(folder))
        code = reached_code(importlib.import_module("flat_pipeline").rows)
        assert code.unseen == ()
        assert len(code.text) < 2_000, "no library was looked into"
        return code.text

    assert hashed(1) == hashed(1)
    assert hashed(1) != hashed(2)


def test_a_package_beside_ones_own_is_ones_own_too(tmp_path, monkeypatch) -> None:
    def hashed(text: str) -> str:
        folder = tmp_path / str(next(_numbers))
        for package in ("acme_pipelines", "acme_common"):
            (folder / package).mkdir(parents=True)
            (folder / package / "__init__.py").write_text("")
            for name in (package, f"{package}.code"):
                monkeypatch.delitem(sys.modules, name, raising=False)
        (folder / "acme_common" / "code.py").write_text(f"def clean(n):\n    return {text}\n")
        (folder / "acme_pipelines" / "code.py").write_text(
            "from acme_common.code import clean\ndef rows(n):\n    return clean(n)\n"
        )
        monkeypatch.syspath_prepend(str(folder))
        return reached_code(importlib.import_module("acme_pipelines.code").rows).text

    assert hashed("n + 1") == hashed("n + 1")
    assert hashed("n + 1") != hashed("n + 2")


LIBRARY = """
import functools

def given(value):
    def decorate(function):
        calls = 0

        @functools.wraps(function)
        def inner(*args):
            def count():
                nonlocal calls
                calls += 1

            count()
            return function(*args), value

        return inner

    return decorate

def hiding(function):
    def inner(*args):
        return function(*args)

    return inner

def twice(function):
    def inner(*args):
        return function(*args) and function(*args)

    return inner

def remembering(function):
    cache = {}

    def inner(x):
        if x not in cache:
            cache[x] = function(x)
        return cache[x]

    return inner
"""
STABLE = {
    "what a library's decorator keeps": (
        "import stable_part\ndef rows(x):\n    return stable_part.part(x)\n",
        (
            "import contextlib\nclass Timed(contextlib.ContextDecorator):\n"
            "    def __enter__(self):\n        return self\n"
            "    def __exit__(self, *error):\n        return False\n"
            "@Timed()\ndef part(x):\n    return x\n"
        ),
    ),
    "what a library's decorator counts": (
        (
            "from stable_lib import given\nfrom stable_part import part\n"
            "@given(1)\ndef rows(x):\n    return part(x)\nrows(1)\n"
        ),
        "from stable_lib import given\n@given(1)\ndef part(x):\n    return x\n",
    ),
    "what a library's decorator remembers": (
        "from stable_part import part\ndef rows(x):\n    return part(x)\n",
        ("from stable_lib import remembering\n@remembering\ndef part(x):\n    return x\n"),
    ),
    "which parts of a package are loaded": (
        (
            "import stable_part\ndef of(package, name):\n    return getattr(package, name, 1)\n"
            "def rows(x):\n    return of(stable_part, 'part')(x)\n"
        ),
        (
            "import sys, types\ndef part(x):\n    made = types.ModuleType('stable_part.late')\n"
            "    setattr(sys.modules[__name__], 'late', made)\n    return x\n"
        ),
    ),
    "what another module is asked for": (
        (
            "import datetime\nimport stable_part\n"
            "def rows(x):\n    return stable_part.part(x), datetime.datetime.now()\n"
        ),
        "import time\nnow = time.time()\ndef part(x):\n    return x\n",
    ),
    "what else is in a module": (
        (
            "import stable_part\nparts = [stable_part]\n"
            "def rows(x):\n    return [one.part(x) for one in parts]\n"
        ),
        "import time\nSTARTED = time.time()\nLINK = iter([1])\ndef part(x):\n    return x\n",
    ),
}


@pytest.mark.parametrize(("pipeline", "part"), STABLE.values(), ids=STABLE)
def test_what_is_of_one_process_alone_is_no_code(tmp_path, monkeypatch, pipeline, part) -> None:
    (tmp_path / "stable_part.py").write_text(part)
    (tmp_path / "stable.py").write_text(pipeline)
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "stable_lib.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    monkeypatch.syspath_prepend(str(tmp_path))
    told = set()
    for calls in range(2):
        for name in ("stable", "stable_part", "stable_lib"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        rows = importlib.import_module("stable").rows
        for _ in range(calls):
            rows(1)
        code = reached_code(rows)
        assert code.unseen == ()
        told.add(code.text)
    assert len(told) == 1


def test_a_folder_of_installed_packages_is_no_code_of_ones_own(tmp_path, monkeypatch) -> None:
    (tmp_path / "acme_lib.py").write_text("def part(x):\n    return x\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def rows(x):
        from acme_lib import part
        from pyspark.sql import functions

        return part(functions.lit(x))

    assert "acme_lib=" in reached_code(rows).text
    assert "functions=" not in reached_code(rows).text
    _is_own_root.cache_clear()
    (tmp_path / "acme_lib-1.0.dist-info").mkdir()
    assert "acme_lib=" not in reached_code(rows).text
    _is_own_root.cache_clear()


PART = "def part(x):\n    return x * NUMBER\n"
ROUNDABOUT = {
    "a context manager": (
        "from roundabout_part import part\ndef rows(x):\n    with part(x) as y:\n        yield y\n",
        "import contextlib\n@contextlib.contextmanager\ndef part(x):\n    yield x * NUMBER\n",
    ),
    "a function by its argument's type": (
        "from roundabout_part import part\ndef rows(x):\n    return part(x)\n",
        f"import functools\n@functools.singledispatch\n{PART}",
    ),
    "code under a library's decorator": (
        (
            "import contextlib\nimport roundabout_part\nclass Timed(contextlib.ContextDecorator):\n"
            "    def __enter__(self):\n        return self\n"
            "    def __exit__(self, *error):\n        return False\n"
            "@Timed()\ndef rows(x):\n    return roundabout_part.part(x)\n"
        ),
        PART,
    ),
    "a module in a list": (
        (
            "import roundabout_part\nRULES = [roundabout_part]\n"
            "def rows(x):\n    return [rule.part(x) for rule in RULES]\n"
        ),
        PART,
    ),
    "a module in a closure": (
        (
            "def make():\n    import roundabout_part\n    def rows(x):\n"
            "        return roundabout_part.part(x)\n    return rows\nrows = make()\n"
        ),
        PART,
    ),
    "a module that is passed on": (
        (
            "import roundabout_part\ndef other(module, x):\n    return module.part(x)\n"
            "def rows(x):\n    return other(roundabout_part, x)\n"
        ),
        PART,
    ),
    "a module in a partial": (
        (
            "import functools, roundabout_part\ndef other(module, x):\n    return module.part(x)\n"
            "rows = functools.partial(other, roundabout_part)\n"
        ),
        PART,
    ),
    "modules that two functions read": (
        (
            "import roundabout_part\nRULES = [roundabout_part]\n"
            "def first(x):\n    return [rule.__name__ for rule in RULES]\n"
            "def rows(x):\n    return first(x) and [rule.part(x) for rule in RULES]\n"
        ),
        PART,
    ),
    "a name that is put together": (
        (
            "import roundabout_part\n"
            "def rows(x):\n    return getattr(roundabout_part, 'pa' + x)(x)\n"
        ),
        PART,
    ),
    "a number given to a library's decorator": (
        "from roundabout_lib import given\n@given(NUMBER)\ndef rows(x):\n    return x\n",
        "",
    ),
    "a function given to a library's decorator": (
        (
            "from roundabout_lib import given\ndef change(x):\n    return x * NUMBER\n"
            "@given(change)\ndef rows(x):\n    return x\n"
        ),
        "",
    ),
    "what is put together from a list": (
        ("import roundabout_part\ndef rows(x):\n    return getattr(roundabout_part, 'LI' + x)\n"),
        "import json\nLIST = json.loads('[NUMBER]')\n",
    ),
    "a look-up that is made at import": (
        (
            "import operator, roundabout_part\nget = operator.attrgetter('part')\n"
            "def rows(x):\n    return get(roundabout_part)(x)\n"
        ),
        PART,
    ),
    "what a module gives when asked": (
        "import roundabout_part\ndef rows(x):\n    return roundabout_part.part\n",
        "def __getattr__(name):\n    return NUMBER\n",
    ),
    "a module that code in the body is given": (
        (
            "import roundabout_part\ndef rows(x):\n"
            "    from roundabout.late import late\n    return late(roundabout_part, x)\n"
        ),
        PART,
    ),
    "modules of one name": (
        (
            "import types\ndef load(n):\n    made = types.ModuleType('roundabout.made')\n"
            "    exec(f'def part(x): return x * {n}', vars(made))\n    return made\n"
            "RULES = [load(5), load(NUMBER)]\n"
            "def rows(x):\n    return [rule.part(x) for rule in RULES]\n"
        ),
        "",
    ),
    "a package without an __init__": (
        "import roundabout_space.code\ndef rows(x):\n    return roundabout_space.code.part(x)\n",
        PART,
    ),
    **{
        f"{what} given to a library's decorator": (
            "from roundabout_part import part\ndef rows(x):\n    return part(x)\n",
            (
                "from dataclasses import dataclass\nfrom decimal import Decimal\n"
                "from roundabout_lib import given\n@dataclass\nclass Own:\n    n: int\n"
                f"@given({value})\ndef part(x):\n    return x\n"
            ),
        )
        for what, value in {
            "a list": "['a', NUMBER]",
            "a keyword": "value={'a': NUMBER}",
            "a decimal": "Decimal(NUMBER)",
            "an own value": "Own(NUMBER)",
        }.items()
    },
    "a number given to a decorator by contextmanager": (
        (
            "import contextlib\n@contextlib.contextmanager\ndef scaled(n):\n    yield n\n"
            "@scaled(NUMBER)\ndef rows(x):\n    return x\n"
        ),
        "",
    ),
    "the body of a decorator by contextmanager": (
        (
            "import contextlib\n@contextlib.contextmanager\ndef scaled(n):\n    yield NUMBER\n"
            "@scaled(1)\ndef rows(x):\n    return x\n"
        ),
        "",
    ),
    "a number given to a decorator of one's own": (
        (
            "import contextlib\nclass scaled(contextlib.ContextDecorator):\n"
            "    def __init__(self, n):\n        self.n = n\n"
            "    def __enter__(self):\n        return self\n"
            "    def __exit__(self, *error):\n        return False\n"
            "@scaled(NUMBER)\ndef rows(x):\n    return x\n"
        ),
        "",
    ),
    "which of two modules a name stands for": (
        (
            "import roundabout_part as a\nimport roundabout_space.code as b\n"
            "chosen = (a, b)[NUMBER - 1]\n"
            "def rows(x):\n    return chosen.part(x), a.part, b.part\n"
        ),
        "def part(x):\n    return x\n",
    ),
    "which of two decorators of a library it is": (
        (
            "import roundabout_lib as lib\nhide = (lib.hiding, lib.twice)[NUMBER - 1]\n"
            "@hide\ndef part(x):\n    return x\ndef rows(x):\n    return part(x)\n"
        ),
        "",
    ),
    "code under a decorator that hides it": (
        (
            "from roundabout_lib import hiding\n@hiding\ndef part(x):\n    return NUMBER\n"
            "def rows(x):\n    return part(x)\n"
        ),
        "",
    ),
    "a package imported in the body": (
        "def rows(x):\n    from roundabout_part import part\n    return part(x)\n",
        PART,
    ),
    "a value of Spark's": (
        (
            "from pyspark.sql.types import VariantVal\nVALUE = VariantVal(bytes([NUMBER]), b'')\n"
            "def rows(x):\n    return VALUE\n"
        ),
        "",
    ),
}


@pytest.mark.parametrize(("pipeline", "part"), ROUNDABOUT.values(), ids=ROUNDABOUT)
def test_code_that_is_reached_in_a_roundabout_way_shows(
    tmp_path, monkeypatch, pipeline, part
) -> None:
    def hashed(number: int) -> str:
        folder = tmp_path / str(next(_numbers))
        (folder / "roundabout").mkdir(parents=True)
        (folder / "roundabout" / "__init__.py").write_text("")
        (folder / "roundabout" / "late.py").write_text("late = lambda m, x: m.part(x)\n")
        (folder / "roundabout_space").mkdir()
        files = {"roundabout/code.py": pipeline}
        files |= {"roundabout_part.py": part, "roundabout_space/code.py": part}
        for file, text in files.items():
            (folder / file).write_text(text.replace("NUMBER", str(number)))
        (folder / "site-packages").mkdir()
        (folder / "site-packages" / "roundabout_lib.py").write_text(LIBRARY)
        for name in [n for n in sys.modules if n.startswith("roundabout")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.syspath_prepend(str(folder / "site-packages"))
        monkeypatch.syspath_prepend(str(folder))
        return reached_code(importlib.import_module("roundabout.code").rows).text

    assert hashed(1) == hashed(1)
    assert hashed(1) != hashed(2)


def test_what_cannot_be_told_is_named_and_nothing_raises() -> None:
    class Evil:
        def __getattr__(self, name: str) -> object:
            raise RuntimeError(name)

    machine, evil, many = subprocess.Popen, Evil(), list(range(MAX_ITEMS + 1))
    channel = time.struct_time(range(9))
    iterator = iter([1])
    used = reached_code(lambda: (machine, many, channel, iterator))
    assert set(used.unseen) == {"many", "iterator"}
    assert reached_code(lambda: evil).unseen
    loop: list[object] = []
    loop.append(loop)
    assert reached_code(lambda: loop).text == reached_code(lambda: loop).text


CROSS = """
import sys
sys.path.insert(0, {root!r})
import reached.pipeline, hashlib
from delta_pipelines.reached_code import reached_code
print(hashlib.sha256(reached_code(reached.pipeline.rows).text.encode()).hexdigest())
"""


def test_the_text_is_the_same_in_every_process(tmp_path, monkeypatch) -> None:
    root = str(Path(package(tmp_path, monkeypatch).__file__).parents[1])

    def run(seed: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", CROSS.format(root=root)],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout

    assert run("1") == run("2") != ""


def test_two_hundred_functions_are_told_in_well_under_a_second(tmp_path, monkeypatch) -> None:
    rows = package(tmp_path, monkeypatch).rows
    started = time.process_time()
    for _ in range(200):
        reached_code(rows)
    assert time.process_time() - started < 1.0


def test_a_module_of_many_constants_is_read_like_any_other(tmp_path, monkeypatch) -> None:
    many = "".join(f"v{n} = {n}.5\n" for n in range(300))
    body = f"def rows(spark):\n    {many.replace(chr(10), chr(10) + '    ')}"
    files = {
        "__init__.py": "",
        "pipeline.py": f"{body}from PACKAGE.late import a, b\n    return a(spark)\n",
        "late.py": "def a(frame):\n    return frame.limit(1)\nb = 1\n",
    }
    before = reached_code(package(tmp_path, monkeypatch, files=files).rows)
    change = ("late.py", "limit(1)", "limit(2)")
    after = reached_code(package(tmp_path, monkeypatch, [change], files=files).rows)
    assert "untold" not in before.text
    assert before.text != after.text


def test_code_that_cannot_be_told_counts_by_its_own_instructions(monkeypatch) -> None:
    def fail(*_):
        raise TypeError("odd")

    monkeypatch.setattr("delta_pipelines.reached_code.OwnCode.around", fail)
    one, two = (reached_code(f) for f in (lambda spark: spark.a, lambda spark: spark.b))
    assert one.unseen == two.unseen == ("<lambda>",)
    assert one.text != two.text


def test_the_text_of_a_long_chain_of_functions_grows_with_its_length() -> None:
    scope: dict[str, object] = {"__name__": "__main__"}
    links = "".join(f'def f{n}(x): return f{n - 1}(x) + "it\'s"\n' for n in range(1, 60))
    exec(f"def f0(x): return 'a\"'\n{links}", scope)
    assert len(reached_code(scope["f59"]).text) < 60 * 400
