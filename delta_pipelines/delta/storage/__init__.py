"""Files under a storage root."""
