"""One step: what it does and what it reports."""
