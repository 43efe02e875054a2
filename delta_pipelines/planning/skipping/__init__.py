"""Whether a refresh would change anything."""
