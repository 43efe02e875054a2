"""How the session's JVM takes its memory from the system: in large pages, and enough at once.

A session that starts reads and runs through hundreds of megabytes of classes, code and objects, all
of them for the first time. In pages of 4 KiB that is 220,000 page faults, and a table of addresses
far larger than what the processor keeps at hand; in pages of 2 MiB, which Linux gives to whoever
asks for them, it is 85,000 (`benchmarks/README.md`).
"""

from pathlib import Path

LARGE_PAGES = "-XX:+UseTransparentHugePages"
ROOM_FOR_CLASSES = "-XX:MetaspaceSize=256m"
"""Java's first garbage collection for the sake of classes comes with 21 MiB of them, further ones
follow as it grows; a run of ten small tables has 50 MiB besides the archive's."""
_LINUX = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def memory_options(linux: Path = _LINUX) -> list[str]:
    """The JVM options of a session's memory.

    Large pages only where the system gives them on demand (`madvise`). Where it gives them to all
    (`always`) they are there without the option, and where it gives none Java would print a
    warning at each start.

    Args:
        linux: The file in which Linux says which processes get large pages.

    Example:
        >>> "-XX:MetaspaceSize=256m" in memory_options()
        True
    """
    return [*([LARGE_PAGES] if _on_demand(linux) else []), ROOM_FOR_CLASSES]


def _on_demand(linux: Path) -> bool:
    try:
        return "[madvise]" in linux.read_text()
    except OSError:
        return False
