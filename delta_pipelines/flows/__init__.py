"""Batch upserts and streaming refreshes."""
