"""What is done once for each JVM."""
