"""Read Delta tables and folders as streams."""
