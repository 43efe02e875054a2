"""One update of a pipeline: versions, leases, progress."""
