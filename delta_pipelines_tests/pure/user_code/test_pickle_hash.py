"""What Spark ships of a function has one hash in every process, and another when it differs."""

import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.serializers import CloudPickleSerializer

from delta_pipelines.user_code.pickle_hash import pickle_digest

ATOMS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary()
)
VALUES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner),
        st.tuples(inner, inner),
        st.dictionaries(st.text(), inner),
        st.frozensets(st.one_of(st.integers(), st.text())),
    ),
    max_leaves=8,
)


def digest(value: object) -> str:
    return pickle_digest(pickle.dumps(value, protocol=5))


def shown(value: Any) -> str:
    """A value with the type of everything in it; the order of a set is no part of it."""
    if isinstance(value, (set, frozenset)):
        return f"{type(value).__name__}{sorted(map(shown, value))}"
    if isinstance(value, dict):
        return f"dict{[(shown(key), shown(item)) for key, item in value.items()]}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}{list(map(shown, value))}"
    return f"{type(value).__name__} {value!r}"


@given(VALUES, VALUES)
def test_equal_values_have_one_hash_and_others_have_two(one: Any, other: Any) -> None:
    assert digest(one) == digest(pickle.loads(pickle.dumps(one)))
    assert (digest(one) == digest(other)) is (shown(one) == shown(other))


def test_a_large_set_has_no_order() -> None:
    names = [f"name {number}" for number in range(3_000)]
    # More than a set begins with: their order is that in which they came.
    other: set[str] = set()
    for name in reversed(names):
        other.add(name)
    assert digest(set(names)) == digest(other)
    assert digest(set(names)) != digest(set(names[1:]))


def test_whether_one_text_stands_there_once_or_twice_does_not_matter() -> None:
    text = "".join(["a", "bc"])
    assert pickle.dumps([text, text]) != pickle.dumps([text, "".join(["ab", "c"])])
    assert digest([text, text]) == digest([text, "".join(["ab", "c"])])


@pytest.mark.parametrize("damaged", [b"", b"\x80", b"no pickle", b"\x80\x05R.", b"(."])
def test_an_unreadable_pickle_is_hashed_as_bytes(damaged: bytes) -> None:
    assert pickle_digest(damaged) == pickle_digest(damaged) != pickle_digest(damaged + b"x")


def test_no_code_of_a_pickle_runs() -> None:
    class Evil:
        def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
            return (exec, ("raise SystemExit('it ran')",))

    assert len(digest(Evil())) == 64


FUNCTIONS = """
import enum, sys
from delta_pipelines.user_code.pickle_hash import pickle_digest
from pyspark.serializers import CloudPickleSerializer

RATES = {rates}
class Base:
    factor = {factor}
class Kind(enum.Enum):
    A = 1
    B = 2
class Numbers(Base):
    def eval(self, k): yield (k * self.factor + len(RATES),)
def again(n): return 1 if n < 2 else n * again(n - 1)
def nested(n):
    words = {{"a", "b", "c", "d", "e"}}
    def inner(m): return m in {{"x", "y", "z", "u"}} or m in words
    return inner(n) or RATES.get(n, {default}) or again({default}) or Kind.A
print(pickle_digest(CloudPickleSerializer().dumps((nested, Numbers))))
"""


def test_functions_and_classes_have_one_hash_in_every_process() -> None:
    def run(seed: str, **values: object) -> str:
        text = FUNCTIONS.format(**{"rates": {"eur": 1}, "factor": 2, "default": 3} | values)
        return subprocess.run(
            [sys.executable, "-c", text],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout

    first = run("1")
    assert len(first.strip()) == 64
    assert run("2") == first
    others = [run("1", rates={"eur": 2}), run("1", factor=3), run("2", default=4)]
    assert len({first, *others}) == 4


def test_the_order_of_constants_counts() -> None:
    def dumped(function: Callable[..., Any]) -> str:
        return pickle_digest(CloudPickleSerializer().dumps(function))

    def made(text: str) -> Callable[..., Any]:
        return eval(text, {})

    assert dumped(made("lambda x: x * 2 + 3")) == dumped(made("lambda x: x * 2 + 3"))
    assert dumped(made("lambda x: x * 2 + 3")) != dumped(made("lambda x: x * 3 + 2"))


def test_attributes_set_on_a_function_later_count() -> None:
    def closed(value: object, default: object) -> Callable[..., Any]:
        def inner(n: int = default) -> object:  # type: ignore[assignment]
            return value, n

        return inner

    def dumped(*functions: Callable[..., Any]) -> str:
        return pickle_digest(CloudPickleSerializer().dumps(functions))

    one, two, three = closed(1, 0), closed(2, 0), closed(1, 1)
    hashes = [dumped(one), dumped(two), dumped(three), dumped(one, two), dumped(two, one)]
    assert dumped(one) == dumped(closed(1, 0))
    assert len(set(hashes)) == 5
