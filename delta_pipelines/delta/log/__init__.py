"""What a table's log says."""
