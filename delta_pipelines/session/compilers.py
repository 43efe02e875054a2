"""When Java's two compilers begin, where few cores are there for them and the work.

Java runs a method by itself first, then compiles it quickly, with counters inside, and what these
show to be hot a second time, well. Spark's start and a first run warm thousands of methods that
never get hot; on two cores the second compiler has its queue full from the first second and takes
nearly a third of all CPU time. With higher thresholds it waits for what stays busy. Measured on
two cores and one (`benchmarks/README.md`); with more of them, Java's own numbers stay.
"""

import contextlib
import math
import os
from pathlib import Path

FEW_CORES = 2
"""The most that was measured."""
_LATER = (
    # The second compiler: thirty times Java's numbers.
    "-XX:Tier4InvocationThreshold=150000",
    "-XX:Tier4MinInvocationThreshold=18000",
    "-XX:Tier4CompileThreshold=450000",
    "-XX:Tier4BackEdgeThreshold=1200000",
    # The first one: twice Java's, and fewer methods copied into their callers.
    "-XX:Tier3InvocationThreshold=400",
    "-XX:Tier3MinInvocationThreshold=200",
    "-XX:Tier3CompileThreshold=4000",
    "-XX:C1MaxInlineLevel=3",
    "-XX:C1MaxInlineSize=20",
)
_CONTROL_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUP = Path("/proc/self/cgroup")


def compiler_options(cores: int) -> list[str]:
    """The JVM options that have its compilers begin later; none where cores are many.

    Args:
        cores: How many cores the JVM may use.

    Example:
        >>> compiler_options(2)[0]
        '-XX:Tier4InvocationThreshold=150000'
        >>> compiler_options(8)
        []
    """
    return list(_LATER) if cores <= FEW_CORES else []


def available_cores(root: Path = _CONTROL_GROUPS, own_group: Path = _OWN_GROUP) -> int:
    """How many cores this process, and so its JVM, may use.

    Those that the system lets it run on, and no more than its control groups' share of time (Linux,
    version 2), rounded up: a container with `--cpus 1.5` on a large machine has two.

    Args:
        root: Where the control groups are mounted.
        own_group: The file that names this process's group.

    Example:
        >>> available_cores() >= 1
        True
    """
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return min([cores, *_shares(root, own_group)])


def _shares(root: Path, own_group: Path) -> list[int]:
    """What a process's group and each one above it may use, in whole cores."""
    try:
        lines = own_group.read_text().splitlines()
    except OSError:
        return []
    own = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), None)
    if own is None:
        return []
    shares = []
    for group in (root / own, *(root / own).parents):
        # "max 100000" is no limit; a group without the file has none either.
        with contextlib.suppress(OSError, ValueError):
            quota, period = map(int, (group / "cpu.max").read_text().split())
            shares.append(max(1, math.ceil(quota / period)))
    return shares
