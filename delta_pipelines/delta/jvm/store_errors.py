"""Say in one sentence why an object store refused, and what to do."""

import re
from collections.abc import Iterable

_S3 = re.compile(r"s3a|awssdk|Service: S3|S3Exception")
_KEYS = (
    "They come from the variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, "
    "a web identity, a profile file, or the machine's role; `spark.hadoop.fs.s3a.*` settings win."
)
_NO_CLIENT = (
    "This session has no S3 client. `dp.get_session` adds it if the warehouse is on S3, or if a "
    "setting begins with `spark.hadoop.fs.s3a.` (such as `spark.hadoop.fs.s3a.endpoint.region`). "
    "To a session of your own, add `org.apache.hadoop:hadoop-aws` of Spark's Hadoop version."
)
_NO_BUCKET = (
    "The bucket does not exist, or the endpoint is another store's. Create the bucket, or correct "
    "the address and `spark.hadoop.fs.s3a.endpoint`."
)
_NO_CREDENTIALS = f"No credentials for S3 were found. {_KEYS}"
_EXPIRED = f"The credentials for S3 have expired. Get new ones and start a new session. {_KEYS}"
_WRONG_KEY = f"The store does not accept the credentials, because a key is wrong. {_KEYS}"
_CLOCK = "The store refuses requests because this machine's clock is wrong. Set the clock."
_REGION = (
    "No region is set, or the bucket is in another region. Set "
    "`spark.hadoop.fs.s3a.endpoint.region` to the bucket's region."
)
_NOT_ALLOWED = (
    "These credentials do not allow this. A run needs s3:ListBucket on the bucket and "
    "s3:GetObject, s3:PutObject and s3:DeleteObject on the warehouse's files."
)
_NO_ANSWER = (
    "The store does not answer. Check the network and `spark.hadoop.fs.s3a.endpoint`, which begins "
    "with `http://` or `https://`."
)
_PROBLEMS = (
    (r"ClassNotFoundException.*S3AFileSystem|S3AFileSystem not found", _NO_CLIENT),
    (r"UnknownStoreException|NoSuchBucket", _NO_BUCKET),
    (r"NoAuthWithAWSException|Unable to load credentials|NoAwsCredentials", _NO_CREDENTIALS),
    (r"ExpiredToken|TokenRefreshRequired|RequestExpired|token .{0,40}expired", _EXPIRED),
    (r"InvalidAccessKeyId|SignatureDoesNotMatch|InvalidToken|InvalidClientTokenId", _WRONG_KEY),
    (r"RequestTimeTooSkewed", _CLOCK),
    (r"AWSRedirectException|PermanentRedirect|AuthorizationHeaderMalformed", _REGION),
    (r"AccessDenied|Status Code: 403|\b403\b.*Forbidden", _NOT_ALLOWED),
    (r"UnknownHost|HttpHostConnect|ConnectException|ConnectTimeout|Connection refused", _NO_ANSWER),
    (r"Connect(?:ion)? to .*failed|Unable to execute HTTP request", _NO_ANSWER),
    (r"ApiCallTimeout|SocketTimeout|Read timed out|did not complete before", _NO_ANSWER),
)
"""What the text of a failure matches, and what to say; the first match counts."""
_ADDRESS = re.compile(r"s3a://[^\s:,;)]+")


def store_problem(causes: Iterable[tuple[str, str]]) -> str | None:
    """Explain a failure of S3; None for any other failure. Pure.

    Args:
        causes: Class and message of the error and of its causes, from the outermost.

    Returns:
        What happened, at which address, and what to do; without the store's own text, which may
        have the key's id.

    Example:
        >>> causes = [("org.apache.hadoop.fs.s3a.UnknownStoreException", "`s3a://b/': Not Found")]
        >>> store_problem(causes)[:34]
        's3a://b/: The bucket does not exis'
    """
    text = "\n".join(f"{name}: {message}" for name, message in causes)
    if not _S3.search(text):
        return None
    for pattern, sentence in _PROBLEMS:
        if re.search(pattern, text):
            address = _ADDRESS.search(text)
            return f"{address[0].rstrip(chr(39))}: {sentence}" if address else sentence
    return None
