"""The Spark session of a Dagster run."""
