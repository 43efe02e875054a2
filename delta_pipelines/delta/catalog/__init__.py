"""Entries of the catalog."""
