"""Airports, flights and their delays: the demo project, on real data."""
