"""What an analyzed plan says."""
