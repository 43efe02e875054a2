"""A pipeline for Dagster on Kubernetes, with Spark's executors in pods."""
