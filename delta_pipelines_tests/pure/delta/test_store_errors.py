"""What a store refuses is one sentence; other failures are not mistaken for it."""

import pytest

from delta_pipelines.delta.jvm.store_errors import _PROBLEMS, store_problem
from delta_pipelines.security.redaction import Redaction

S3 = "software.amazon.awssdk.services.s3.model.S3Exception"


@pytest.mark.parametrize(
    ("name", "message", "sentence"),
    [
        (S3, "The provided token has expired. (Service: S3, Status Code: 400)", "have expired"),
        (S3, "InvalidAccessKeyId (Service: S3, Status Code: 403)", "a key is wrong"),
        ("java.nio.file.AccessDeniedException", "s3a://b/t: PUT: AccessDenied", "do not allow"),
        (S3, "null (Service: S3, Status Code: 403, Request ID: x)", "do not allow this"),
        ("java.net.UnknownHostException", "getFileStatus on s3a://b/t: nowhere", "not answer"),
        (
            "java.lang.RuntimeException",
            "ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found",
            "has no S3 client",
        ),
    ],
)
def test_a_refusal_of_s3_has_a_remedy(name: str, message: str, sentence: str) -> None:
    problem = store_problem([("org.apache.spark.SparkException", "Job aborted"), (name, message)])
    assert problem is not None
    assert sentence in problem


@pytest.mark.parametrize(
    "message",
    [
        "AccessDenied: /data/t",
        "ConnectException: the database",
        "[DELTA_CONCURRENT_APPEND] s3a://b/t: another transaction wrote files",
        "s3a://b/t/part-0.parquet is not a Parquet file",
    ],
)
def test_other_failures_are_not_of_the_store(message: str) -> None:
    assert store_problem([("java.io.IOException", message)]) is None


@pytest.mark.parametrize("sentence", [sentence for _, sentence in _PROBLEMS])
def test_a_sentence_is_not_taken_for_a_credential(sentence: str) -> None:
    assert Redaction().text(f"s3a://b/t: {sentence}") == f"s3a://b/t: {sentence}"
