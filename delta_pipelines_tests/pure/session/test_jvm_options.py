"""A session's JVM asks for large pages where the system gives them, and only there."""

from pathlib import Path

import pytest

from delta_pipelines.session import config
from delta_pipelines.session.config import JAVA_OPTIONS, spark_config
from delta_pipelines.session.jvm_options import LARGE_PAGES, ROOM_FOR_CLASSES, memory_options


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("always [madvise] never\n", [LARGE_PAGES, ROOM_FOR_CLASSES]),
        ("[always] madvise never\n", [ROOM_FOR_CLASSES]),
        ("always madvise [never]\n", [ROOM_FOR_CLASSES]),
        ("", [ROOM_FOR_CLASSES]),
        (None, [ROOM_FOR_CLASSES]),
    ],
)
def test_large_pages_are_asked_for_where_they_are_given_on_demand(
    tmp_path: Path, content: str | None, expected: list[str]
) -> None:
    linux = tmp_path / "enabled"
    if content is not None:
        linux.write_text(content)
    assert memory_options(linux) == expected


def test_the_users_own_memory_comes_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "memory_options", lambda: [LARGE_PAGES, ROOM_FOR_CLASSES])
    own = "-XX:-UseTransparentHugePages -XX:MetaspaceSize=64m"
    options = spark_config(tmp_path, extra={JAVA_OPTIONS: own})[JAVA_OPTIONS]
    assert options.index(LARGE_PAGES) < options.index(ROOM_FOR_CLASSES) < options.index(own)
