"""Declarations are resolved to a graph and checked; no session."""
