"""Whether Delta's classes are as they were tested is asked once for each Spark context."""

import gc

import pytest

from delta_pipelines.delta.jvm import signatures
from delta_pipelines.delta.jvm.signatures import Member, check_signatures, unavailable
from delta_pipelines.model.identifiers import Identifier

TABLE = Identifier(None, "aviation", "flights")


class Context:
    """A context; its id costs a round trip to the JVM, and the next context has the same."""

    asked = 0
    _gateway = None

    @property
    def applicationId(self) -> str:  # noqa: N802 - PySpark's name
        Context.asked += 1
        return "local-1"


class Session:
    _jsparkSession = _jvm = None  # noqa: N815 - PySpark's name

    def __init__(self, context: Context) -> None:
        self.sparkContext = context


@pytest.fixture
def looked(monkeypatch) -> list[object]:
    """Every look at the JVM's classes; one that comes after a stopped context finds less."""
    looks: list[object] = []

    def look(jvm, required):
        looks.append(required)
        return None if len(looks) == 1 else "this Delta version has no commit"

    monkeypatch.setattr(signatures, "_first_missing", look)
    return looks


def test_the_answer_is_kept_without_asking_the_context_again(looked) -> None:
    context = Context()
    Context.asked = 0
    for _ in range(5):
        assert unavailable(Session(context), TABLE) is None  # of another session each time
    assert (len(looked), Context.asked) == (1, 0)


def test_a_new_context_is_checked_again_even_with_the_same_id(looked) -> None:
    first = Context()
    assert unavailable(Session(first), TABLE) is None
    assert unavailable(Session(Context()), TABLE) == "this Delta version has no commit"
    assert unavailable(Session(first), TABLE) is None


def test_a_stopped_context_takes_its_answers_with_it(looked) -> None:
    before = len(signatures._checked)
    context = Context()
    unavailable(Session(context), TABLE)
    assert len(signatures._checked) == before + 1
    del context
    gc.collect()
    assert len(signatures._checked) == before


def test_members_are_compared_by_value_not_by_hash(looked) -> None:
    session = Session(Context())

    class Alike(Member):
        def __hash__(self) -> int:
            return 7

    assert check_signatures(session, (Alike("a", "b"),)) is None
    assert check_signatures(session, (Alike("a", "c"),)) == "this Delta version has no commit"
