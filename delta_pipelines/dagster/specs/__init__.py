"""Datasets as asset specs and check specs."""
