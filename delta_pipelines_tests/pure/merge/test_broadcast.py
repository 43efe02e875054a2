"""How many rows of a merge are broadcast."""

import pytest

from delta_pipelines.merge.broadcast import broadcast_limit

MIB = 1 << 20


@pytest.mark.parametrize(
    ("heaps", "limit"),
    [
        ([], 128),
        ([1024 * MIB, 512 * MIB], 16),
        ([512 * MIB, 8192 * MIB], 16),
        ([4096 * MIB, 4096 * MIB], 128),
        ([65536 * MIB, 65536 * MIB], 128),
    ],
)
def test_the_smallest_heap_of_a_cluster_limits_what_is_broadcast(
    heaps: list[int], limit: int
) -> None:
    assert broadcast_limit(heaps) == limit * MIB
