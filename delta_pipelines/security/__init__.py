"""Credentials are taken out of every text that leaves the process."""
