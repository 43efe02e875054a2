"""Queries, analyzed against tables at a version."""
