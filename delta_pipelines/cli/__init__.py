"""The `delta-pipelines` command."""
