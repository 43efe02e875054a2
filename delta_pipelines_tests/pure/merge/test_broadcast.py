"""How many rows of a merge are broadcast."""

import pytest

from delta_pipelines.merge.broadcast import broadcast_limit

MIB = 1 << 20


@pytest.mark.parametrize(("heap", "limit"), [(512, 16), (1024, 32), (4096, 128), (65536, 128)])
def test_the_smallest_heap_limits_what_is_broadcast(heap: int, limit: int) -> None:
    assert broadcast_limit(heap * MIB) == limit * MIB
