"""Sessions that read and write `s3a://` addresses."""
