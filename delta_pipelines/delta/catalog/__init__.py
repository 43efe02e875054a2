"""What the catalog has under a name."""
