"""The only room that touches Delta's and Spark's JVM classes."""
