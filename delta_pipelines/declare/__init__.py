"""Decorators that declare datasets, their options, and checks of the options' Python types."""
