"""Observation of sources."""
