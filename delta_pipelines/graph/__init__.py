"""Resolve declarations to a graph and check them, without a session."""
