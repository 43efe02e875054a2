"""What a table is to be."""
