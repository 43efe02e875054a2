"""One merge on Delta's own classes."""
