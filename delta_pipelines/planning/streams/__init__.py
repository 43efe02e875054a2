"""Streams, compared with their checkpoints."""
