"""Folders and lease files."""
