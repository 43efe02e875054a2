"""Which code of the author's a query depends on, as a hash."""
