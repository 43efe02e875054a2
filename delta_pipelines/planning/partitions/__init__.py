"""Which partitions a run computes, and which of them are stale."""
