"""Read analysed plans."""
