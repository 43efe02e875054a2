"""Values that code reaches are told by their type, their attributes and what they hold."""

import subprocess
import sys
import time
import types

import pytest

from delta_pipelines.reached_code import ReachedCode, reached_code
from delta_pipelines.value_parts import parts

IMPORTS = """
import collections, datetime, enum, functools, operator, re, types, typing
from dataclasses import KW_ONLY, dataclass, field
from typing import Generic, NamedTuple, TypeVar
"""
ENUM = """
class Kind(enum.Enum):
    A = 1
    B = 2
    def factor(self): return self.value * 2
X = {"a": Kind.A}
def f(n): return X["a"].factor()
"""
FLAG = """
class Right(enum.Flag):
    R = 1
    W = 2
    @property
    def both(self): return self.R | self.W
X = Right.R | Right.W
def f(n): return X.both
"""
ENUM_WITH_STATE = """
class Planet(float, enum.Enum):
    A = 1.5
    def __init__(self, mass): self.moons = 3
X = Planet.A
def f(n): return X.moons
"""
NAMED_TUPLE = """
class Point(NamedTuple):
    a: int
    b: int = 5
    def total(self): return self.a + self.b
X = Point(1, 2)
def f(n): return X.total()
"""
LIST = """
class Rows(list):
    def first(self): return self[0]
X = Rows([7, 8])
X.step = 3
def f(n): return X.first()
"""
DICT = """
class Rates(collections.OrderedDict):
    def __missing__(self, key): return 1
X = Rates(a=7)
def f(n): return X[n]
"""
DEFAULT_DICT = """
X = collections.defaultdict(lambda: 4, a=7)
def f(n): return X[n]
"""
DEQUE = """
X = collections.deque([7], maxlen=4)
def f(n): return X[0]
"""
STR = """
class Name(str):
    def loud(self): return self.upper()
class Count(int):
    def __repr__(self): return "the same"
X = Name("abc")
Y = Count(6)
def f(n): return X.loud() * Y
"""
DECORATOR = """
class Scaled:
    def __init__(self, inner, factor):
        functools.update_wrapper(self, inner)
        self.factor = factor
    def __call__(self, n): return self.__wrapped__(n) * self.factor
def plain(n): return n + 1
X = Scaled(plain, 3)
def f(n): return X(n)
"""
ATTRIBUTES = """
def f(n): return n * f.k
f.k = 2
"""
DISPATCH = """
@functools.singledispatch
def size(n): return 1
@size.register
def _(n: str): return 2
def f(n): return size(n)
"""
DATACLASS = """
T = TypeVar("T")
def numbers(): return [9]
@dataclass(frozen=True, order=True)
class Base(Generic[T]):
    a: int = 4
    b: list = field(default_factory=numbers, compare=False)
    _: KW_ONLY
    c: "str | None" = None
    @functools.cached_property
    def twice(self): return self.a * 2
class Box(Base[int]):
    pass
X = Box(1)
def f(n): return X.twice
"""
SLOTS = """
class Pair:
    __slots__ = "__a"
    def __init__(self, a): self.__a = a
    @staticmethod
    def k(n): return n
    def __hash__(self): return 11
X = Pair(7)
def f(n): return X
"""
BOUND = """
X = re.compile("ab+").match
Y = {"a": 6}.get
Z = operator.itemgetter(3)
L = str.lower
def f(n): return X(n), Y(n), Z(n), L(n)
"""
PARTIAL = """
def inner(n, m): return n * m
X = functools.partial(inner, m=3)
X.k = 4
def f(n): return X(n)
"""
TIMES = """
class Zone(datetime.tzinfo):
    hours = 2
    def utcoffset(self, when): return datetime.timedelta(hours=self.hours)
X = datetime.datetime(2024, 1, 5, tzinfo=Zone())
Y = types.SimpleNamespace(a=6)
Z = ValueError("odd")
def f(n): return X, Y, Z
"""
PROXY = """
class Loose:
    def __init__(self, a): self.__dict__["a"] = a
    def __getattr__(self, name): return None
X = Loose(6)
def f(n): return X.a
"""
TYPED = """
Row = dict[str, "int | None"]
U = TypeVar("U")
def f(n): return typing.cast(Row, n), typing.cast(U, n), typing.Any
"""
META = """
class Meta(type):
    def __call__(cls): return 5
class Made(metaclass=Meta): pass
def f(n): return Made()
"""
CHANGES = [
    (ENUM, "value * 2", "value * 3"),
    (ENUM, "B = 2", "B = 3"),
    (ENUM, '"a": Kind.A', '"a": Kind.B'),
    (FLAG, "self.R | self.W", "self.R & self.W"),
    (FLAG, "Right.R | Right.W", "Right.R"),
    (ENUM_WITH_STATE, "moons = 3", "moons = 4"),
    (ENUM_WITH_STATE, "A = 1.5", "A = 2.5"),
    (NAMED_TUPLE, "self.a + self.b", "self.a - self.b"),
    (NAMED_TUPLE, "b: int = 5", "b: int = 6"),
    (NAMED_TUPLE, "Point(1, 2)", "Point(1, 3)"),
    (LIST, "self[0]", "self[1]"),
    (LIST, "[7, 8]", "[7, 9]"),
    (LIST, "step = 3", "step = 4"),
    (DICT, "return 1", "return 2"),
    (DICT, "a=7", "a=8"),
    (DEFAULT_DICT, "lambda: 4", "lambda: 5"),
    (DEFAULT_DICT, "a=7", "a=8"),
    (DEQUE, "[7]", "[8]"),
    (DEQUE, "maxlen=4", "maxlen=5"),
    (STR, "self.upper", "self.lower"),
    (STR, '"abc"', '"abd"'),
    (STR, "Count(6)", "Count(7)"),
    (DECORATOR, "* self.factor", "+ self.factor"),
    (DECORATOR, "n + 1", "n + 2"),
    (DECORATOR, "plain, 3", "plain, 4"),
    (ATTRIBUTES, "f.k = 2", "f.k = 3"),
    (DISPATCH, "return 2", "return 3"),
    (DATACLASS, "a: int = 4", "a: int = 5"),
    (DATACLASS, "[9]", "[8]"),
    (DATACLASS, "compare=False", "compare=True"),
    (DATACLASS, "frozen=True, ", ""),
    (DATACLASS, "order=True", "order=False"),
    (DATACLASS, '"str | None" = None', '"str | None" = "x"'),
    (DATACLASS, "self.a * 2", "self.a * 3"),
    (DATACLASS, "Box(1)", "Box(2)"),
    (SLOTS, "Pair(7)", "Pair(8)"),
    (SLOTS, "@staticmethod", "@classmethod"),
    (SLOTS, "return 11", "return 12"),
    (BOUND, "ab+", "ab*"),
    (BOUND, '"a": 6', '"a": 7'),
    (BOUND, "itemgetter(3)", "itemgetter(4)"),
    (BOUND, "str.lower", "str.upper"),
    (PARTIAL, "m=3", "m=4"),
    (PARTIAL, "n * m", "n + m"),
    (PARTIAL, "X.k = 4", "X.k = 5"),
    (TIMES, "hours = 2", "hours = 3"),
    (TIMES, "1, 5", "1, 6"),
    (TIMES, "a=6", "a=7"),
    (TIMES, "odd", "even"),
    (PROXY, "Loose(6)", "Loose(7)"),
    (TYPED, "dict[str", "dict[int"),
    (META, "return 5", "return 6"),
]


def reached(source: str, monkeypatch: pytest.MonkeyPatch, *, before: str = "") -> ReachedCode:
    """Run a module of one's own, and tell its function `f`."""
    module = types.ModuleType("own_values")
    monkeypatch.setitem(sys.modules, "own_values", module)
    exec(compile(IMPORTS + source, "own_values.py", "exec", dont_inherit=True), vars(module))
    exec(before, vars(module))
    return reached_code(vars(module)["f"])


@pytest.mark.parametrize(("source", "old", "new"), CHANGES)
def test_every_change_of_a_value_that_is_reached_shows(source, old, new, monkeypatch) -> None:
    assert source.count(old) == 1
    before = reached(source, monkeypatch)
    assert before.unseen == ()
    assert "untold" not in before.text
    assert reached(source, monkeypatch).text == before.text
    assert reached(source.replace(old, new), monkeypatch).text != before.text


@pytest.mark.parametrize(
    ("source", "use"),
    [
        (DATACLASS, "f(1)"),
        (FLAG, "Right(0), ~Right.R, f(1)"),
        (ENUM, "Kind(2), Kind['A']"),
        (DISPATCH, "f('x'), f(1.5)"),
        (DECORATOR, "f(1)"),
    ],
)
def test_what_use_leaves_behind_in_a_value_does_not_show(source, use, monkeypatch) -> None:
    assert reached(source, monkeypatch, before=use) == reached(source, monkeypatch)


@pytest.mark.parametrize(
    "value",
    [
        "iter([1])",
        "__import__('array').array('b', [1])",
        "type('Buffer', (__import__('array').array,), {})('b', [1])",
        "__import__('os').environ",
    ],
)
def test_what_may_hold_more_than_is_told_is_named(value, monkeypatch) -> None:
    code = reached(f"X = {value}\ndef f(n): return X", monkeypatch)
    assert code.unseen == ("X",)
    assert "0x" not in code.text


def test_nothing_of_a_user_is_called() -> None:
    class Sly(dict):
        def items(self):
            raise RuntimeError("called")

        __iter__ = __len__ = __repr__ = items

    taken = parts(Sly(a=1), own=True)
    assert (taken.held, taken.known) == (({"a": 1},), True)


SETS = """
import sys, types
module = types.ModuleType("own_values")
sys.modules["own_values"] = module
exec(compile({source!r}, "own_values.py", "exec", dont_inherit=True), vars(module))
from delta_pipelines.reached_code import reached_code
code = reached_code(module.f)
assert code.unseen == () and "0x" not in code.text, code
sys.stdout.write(code.text)
"""
IN_SETS = """
SHARED = ["one", "list"]
class Unit:
    def __init__(self, name): self.name, self.shared = name, SHARED
    def __eq__(self, other): return type(self) is type(other) and self.name == other.name
    def __hash__(self): return hash(self.name)
class Kind(enum.Enum):
    A = Unit("a")
    B = Unit("b")
@dataclass(frozen=True)
class Pair:
    a: str
    b: frozenset
X = frozenset({Pair(n, frozenset({Unit(n), Unit("z"), Kind.A, Kind.B, n})) for n in "abc"})
Y = {Unit("q"), Unit("r"), Pair("s", frozenset())}
def f(n): return n in X and n in {"k", "l", "m"} and SHARED and n in Y
"""


def test_the_order_of_a_set_does_not_show_in_any_process() -> None:
    def run(seed: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", SETS.format(source=IMPORTS + IN_SETS)],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout

    assert len({run(seed) for seed in "1234"}) == 1


def test_sets_that_share_much_are_told_in_time(monkeypatch) -> None:
    source = """
class Node:
    def __init__(self, below): self.below = below
X = Node(frozenset())
for _ in range(40):
    X = Node(frozenset({Node(X), Node(X)}))
def f(n): return X
"""
    started = time.process_time()
    code = reached(source, monkeypatch)
    assert code.unseen == ("X",)
    assert time.process_time() - started < 20
