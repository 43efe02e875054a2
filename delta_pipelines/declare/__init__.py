"""Decorators, their options, and the checks of their Python types."""
