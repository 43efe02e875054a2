"""Read a table's log."""
