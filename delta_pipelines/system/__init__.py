"""The operating system, files on disk and other servers; no Spark."""
