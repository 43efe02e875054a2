"""The only package that calls Delta's and Spark's JVM classes."""
