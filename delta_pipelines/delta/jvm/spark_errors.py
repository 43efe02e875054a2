"""Turn a failure of Spark into one sentence that says what to do.

The Java stack trace is the cause of the error, never its message.
"""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger

from delta_pipelines.delta.jvm.bridge import JavaObject
from delta_pipelines.delta.jvm.driver_jvm import jvm_exit
from delta_pipelines.delta.jvm.store_errors import store_problem
from delta_pipelines.errors import DatasetError, SchemaChangeError
from delta_pipelines.security.redaction import Redaction
from delta_pipelines.system.polling_wait import Wait

SPARK_FAILURES = (PySparkException, Py4JError)
"""What Spark, Delta or py4j raises. PySpark has its own classes for common exceptions of the JVM
(`AnalysisException`, `IllegalArgumentException`, ...); these are not `Py4JError`s."""

PASSING_CONFLICTS = {
    "ConcurrentAppendException": "DELTA_CONCURRENT_APPEND",
    "ConcurrentDeleteReadException": "DELTA_CONCURRENT_DELETE_READ",
    "ConcurrentDeleteDeleteException": "DELTA_CONCURRENT_DELETE_DELETE",
    "ConcurrentWriteException": "DELTA_CONCURRENT_WRITE",
    "MetadataChangedException": "DELTA_METADATA_CHANGED",
}
"""Delta's conflicts that do not occur again when the work is repeated on the latest snapshot:
class and error condition."""
_RETRY_HELPS = (*PASSING_CONFLICTS.values(), "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND")
_RETRY_HELPS_CLASSES = (
    *PASSING_CONFLICTS,
    "FetchFailedException",
    "MetadataFetchFailedException",
    "BlockNotFoundException",
)
_RETRY_HELPS_TEXT = re.compile(
    r"CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND|Checkpoint block rdd_\d+_\d+ not found|FetchFailed"
    r"|ExecutorLostFailure|Executor heartbeat timed out|Could not (?:find|get) block"
)
_NOT_THERE = frozenset(
    {
        "DELTA_FILE_NOT_FOUND",
        "DELTA_FILE_OR_DIR_NOT_FOUND",
        "DELTA_LOG_FILE_NOT_FOUND",
        "DELTA_MISSING_DELTA_TABLE",
        "DELTA_MISSING_PART_FILES",
        "DELTA_NO_COMMITS_FOUND",
        "DELTA_NO_RECREATABLE_HISTORY_FOUND",
        "DELTA_NO_RELATION_TABLE",
        "DELTA_PATH_DOES_NOT_EXIST",
        "DELTA_SCHEMA_NOT_SET",
        "DELTA_STATE_RECOVER_ERROR",
        "DELTA_TABLE_NOT_FOUND",
        "DELTA_TRUNCATED_TRANSACTION_LOG",
        "DELTA_VERSIONS_NOT_CONTIGUOUS",
        "DELTA_VERSION_NOT_FOUND",
        "FAILED_READ_FILE.FILE_NOT_EXIST",
        "PATH_NOT_FOUND",
        "TABLE_OR_VIEW_NOT_FOUND",
    }
)
"""Conditions of Delta 4.4 and Spark 4.2 that mean: the table, version or file does not exist."""
_NO_FILE_CLASSES = ("FileNotFoundException", "NoSuchFileException")
_SCHEMA_CONDITIONS = ("DELTA_BLOCK_COLUMN_MAPPING_AND_CDC_OPERATION",)
_PREFIX = re.compile(r"^\[(?P<condition>[A-Z0-9_.]+)\]\s*")
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w{5}.*$", re.DOTALL)
_WRAPPERS = re.compile(
    r"TASK_WRITE_FAILED|FAILED_EXECUTE_UDF|Job aborted|Task failed|^Exception thrown in"
)
_TRACE = re.compile(r"(?:at [\w.$]+\(|== SQL|JVM stacktrace)")
RAISED = "delta_pipelines: "
"""Start of a message that a query of this package raises; the rest is a sentence for users."""
_LIBRARY = re.compile(r"(?:app//)?(?:java|jdk|sun|scala)[./]")
_FRAMES = 100
"""How many stack frames are searched for one outside the libraries of Java and Scala."""
_ADVICE = {
    "java.lang.StackOverflowError": ": an expression or a plan is nested too deep for the stack of "
    "the JVM's threads; split the query, or start the session with "
    "spark.driver.extraJavaOptions=-Xss16m",
}
_EXIT_SECONDS = 1.0
_LONGEST = 2000
"""Characters of a message; some messages list whole schemas."""
_PYTHON_ERROR = re.compile(
    r"^(?P<line>[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning)\b.*)$"
)
_PYTHON_FRAME = re.compile(r'^  File "(?P<path>[^"]+)", line (?P<line>\d+), in (?P<function>.+)$')
_PYTHON_LIBRARY = re.compile(r"[\\/](?:site-packages|dist-packages|pyspark)[\\/]")


def quieten_query_errors() -> None:
    """Stop PySpark from printing an error of a query to stderr before it raises the error.

    It prints the whole error as JSON, including credentials in the query.
    """
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)


def explain(exc: BaseException, dataset: str) -> DatasetError:
    """Turn a failure of Spark into one readable error.

    Args:
        exc: What py4j or PySpark raised; an error of this package is returned unchanged.
        dataset: Declared or qualified name of the dataset.

    Returns:
        A `DatasetError` with `exc` as its cause; `transient` if running again can help. A schema
        change that Delta rejects is a `SchemaChangeError`.

    Example:
        >>> try:
        ...     spark.sql("SELECT nope FROM VALUES (1) AS t(a)")
        ... except Exception as exc:
        ...     str(explain(exc, "aviation.flights"))[:58]
        'aviation.flights: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A co'
    """
    if isinstance(exc, DatasetError):
        return exc
    causes = list(causes_of(exc))
    condition, sentence = _condition_and_sentence(exc, causes)
    silent = _silent_cause(exc)
    names = {name for name, _ in causes}  # a wrapper's message may be the name of its cause
    if silent and all(m in names or not m or _WRAPPERS.search(m) for _, m in causes):
        condition, sentence = None, f"Spark failed with {silent}."
    elif silent:
        sentence += f" The cause is {silent}."
    refused = store_problem(causes)
    if refused:
        condition, sentence = None, refused
    transient = _retry_helps(condition, causes)
    hint = " Running it again can help." if transient else ""
    label = f"[{condition}] " if condition and not sentence.startswith(RAISED) else ""
    sentence = sentence.removeprefix(RAISED)
    kind = SchemaChangeError if condition in _SCHEMA_CONDITIONS else DatasetError
    text = Redaction().text(f"{label}{sentence}{hint}")
    error = kind(text, dataset=dataset, transient=transient)
    error.__cause__ = exc
    return error


@contextmanager
def explained(dataset: str) -> Iterator[None]:
    """Raise Spark's failures in the block as `explain` words them; other errors pass through.

    Args:
        dataset: Declared or qualified name of the dataset.

    Raises:
        DatasetError: Spark, Delta or py4j raised an error.
    """
    try:
        yield
    except SPARK_FAILURES as exc:
        raise explain(exc, dataset) from exc


def explain_crash(exc: BaseException, dataset: str) -> DatasetError | None:
    """Return an error that says that the JVM has ended, if that is the cause of a failure.

    Args:
        exc: The failure.
        dataset: Declared or qualified name of the dataset.

    Returns:
        None if the failure has another cause.
    """
    if not any(isinstance(error, Py4JNetworkError | ConnectionError) for error in _chain(exc)):
        return None
    # The sockets close a moment before the process is reported as ended.
    wait = Wait(_EXIT_SECONDS, quiet=_EXIT_SECONDS, every=_EXIT_SECONDS, pauses=(0.02, 0.2))
    while (how := jvm_exit()) is None and not wait.is_over:
        wait.pause()
    if how is None:
        return None
    error = DatasetError(
        f"Spark's JVM ended while it worked: {how}. Running it again can help.",
        dataset=dataset,
        transient=True,
    )
    error.__cause__ = exc
    return error


def conflict_class(exc: BaseException) -> str | None:
    """Return the simple class name of Delta's conflict error, or None for another error."""
    for name, _ in causes_of(exc):
        simple = name.rsplit(".", 1)[-1]
        if (
            name.startswith("io.delta.exceptions.")
            or simple == "DeltaConcurrentModificationException"
        ):
            return simple
    kind = type(exc)
    return kind.__name__ if kind.__module__.startswith("delta.exceptions") else None


def is_not_there(exc: BaseException) -> bool:
    """Say whether an error of Spark means that a table, a version or a file does not exist."""
    return any(
        name.rsplit(".", 1)[-1] in _NO_FILE_CLASSES
        or ((found := _PREFIX.match(message)) is not None and found["condition"] in _NOT_THERE)
        for name, message in causes_of(exc)
    )


def _chain(exc: BaseException) -> Iterator[BaseException]:
    error: BaseException | None = exc
    for _ in range(20):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


def _java(exc: BaseException) -> JavaObject | None:
    if isinstance(exc, Py4JJavaError):
        return exc.java_exception
    return getattr(exc, "_origin", None)


def causes_of(exc: BaseException) -> Iterator[tuple[str, str]]:
    """Class and message of an error and of its causes in the JVM, from the outermost."""
    throwable = _java(exc)
    if throwable is None:
        yield type(exc).__name__, _description(exc)
    for _ in range(20):
        if throwable is None:
            return
        yield throwable.getClass().getName(), throwable.getMessage() or ""
        throwable = throwable.getCause()


def _silent_cause(exc: BaseException) -> str | None:
    """Class and location of the innermost Java error if it has no message, else None."""
    throwable = _java(exc)
    for _ in range(20):
        if throwable is None or (cause := throwable.getCause()) is None:
            break
        throwable = cause
    if throwable is None or throwable.getMessage():
        return None
    name = str(throwable.getClass().getName())
    frames = throwable.getStackTrace()
    count = len(frames)
    if not count:
        return name
    lines = (str(frames[n].toString()) for n in range(min(count, _FRAMES)))
    own = next((line for line in lines if not _LIBRARY.match(line)), None)
    return f"{name} at {own or frames[0].toString()}{_ADVICE.get(name, '')}"


def _condition_and_sentence(
    exc: BaseException, causes: list[tuple[str, str]]
) -> tuple[str | None, str]:
    messages = [message for _, message in causes if message] or [type(exc).__name__]
    for message in messages:
        python = _python_failure(message)
        if python:
            return _condition(exc, message), f"a Python function failed: {python}"
    for message in reversed(messages):
        found = _PREFIX.match(message)
        if found and not _WRAPPERS.search(message.split("\n", 1)[0]):
            return found["condition"], _sentence(message, found["condition"])
    deepest = next((m for m in reversed(messages) if not _WRAPPERS.search(m)), messages[-1])
    condition = _condition(exc, deepest)
    return condition, _sentence(deepest, condition) or type(exc).__name__


def _description(exc: BaseException) -> str:
    # str() of a captured exception may append the JVM's stack trace (a Spark setting).
    return str(getattr(exc, "_desc", None) or exc)


def _python_failure(message: str) -> str | None:
    """The last line of a Python traceback in a message, with the user's innermost line."""
    if "Traceback (most recent call last)" not in message:
        return None
    tail = message.split("Traceback (most recent call last)", 1)[1]
    lines = [found["line"] for line in tail.splitlines() if (found := _PYTHON_ERROR.match(line))]
    if not lines:
        return None
    frames = [found for line in tail.splitlines() if (found := _PYTHON_FRAME.match(line))]
    own = [frame for frame in frames if not _PYTHON_LIBRARY.search(frame["path"])]
    where = "".join(f" ({f['path']}:{f['line']}, in {f['function']})" for f in own[-1:])
    return f"{_SQLSTATE.sub('', lines[-1]).strip()}{where}"


def _condition(exc: BaseException, message: str) -> str | None:
    found = _PREFIX.match(message)
    if found:
        return found["condition"]
    if isinstance(exc, PySparkException):
        return exc.getCondition()
    return None


def _sentence(message: str, condition: str | None) -> str:
    """Put a message on one line.

    Spark's first line is enough, because plans follow it; Delta breaks its sentences into lines.
    """
    text = _SQLSTATE.sub("", _PREFIX.sub("", message.strip())).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if condition is not None and condition.startswith("DELTA_"):
        lines = [" ".join(takewhile(lambda line: not _TRACE.match(line), lines))]
    line = lines[0][:_LONGEST] if lines else text
    return line if line.endswith((".", "!", "?")) else f"{line}."


def _retry_helps(condition: str | None, causes: list[tuple[str, str]]) -> bool:
    if condition and condition.startswith(_RETRY_HELPS):
        return True
    return any(
        name.rsplit(".", 1)[-1] in _RETRY_HELPS_CLASSES or _RETRY_HELPS_TEXT.search(message)
        for name, message in causes
    )
