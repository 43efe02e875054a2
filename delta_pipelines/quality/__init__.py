"""What rows are to be like: declared beside a query, counted and enforced while it is written."""
