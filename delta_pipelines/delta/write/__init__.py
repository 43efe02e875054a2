"""Transactions on a table."""
