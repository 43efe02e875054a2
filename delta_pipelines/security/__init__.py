"""Redaction of credentials in every text that leaves the process."""
