"""Immutable values that all packages share, and pure rules on them; no session, no I/O."""
