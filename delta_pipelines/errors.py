"""Typed errors: what happened, to which dataset, why, and what to do.

Every error of the package is a `PipelineError`. Whether a retry can help is in the type or in its
`transient` attribute, never in the text; a Java stack trace is a cause, never a message. Two more
errors, which carry results, are elsewhere: `ExpectationError` and `PipelineRunError`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class SourceLocation:
    """A line in a file.

    Args:
        file: Path of the file.
        line: Line number, from 1.
    """

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class PipelineError(Exception):
    """Root of every error that this package raises.

    The attribute `transient` is true when another run can help (a conflict, a lost block).

    Example:
        >>> try:
        ...     raise DatasetError("its query failed.", dataset="flights")
        ... except PipelineError as error:
        ...     error.transient
        False
    """

    transient: bool = False


def is_transient(error: BaseException | None) -> bool:
    """True when another run can help; always False for errors of other packages.

    Example:
        >>> is_transient(DatasetError("two writers met.", transient=True)), is_transient(KeyError())
        (True, False)
    """
    return isinstance(error, PipelineError) and error.transient


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a declaration or a plan.

    Args:
        message: A full sentence: what is wrong and what to do.
        dataset: Declared name of its dataset, None for the pipeline itself.
        location: Where the dataset was declared, when known.
    """

    message: str
    dataset: str | None = None
    location: SourceLocation | None = None

    def __str__(self) -> str:
        # A name with control characters or half a character must not reach a terminal or a log.
        name = (
            self.dataset if not self.dataset or self.dataset.isprintable() else repr(self.dataset)
        )
        subject = f"{name}: " if name else ""
        where = f" [{self.location}]" if self.location else ""
        return f"{subject}{self.message}{where}"


MAX_LISTED = 30
"""Most items that a message lists one by one, and most datasets that a report shows in full."""


def at_most(lines: Sequence[str], indent: str = "") -> list[str]:
    """The first lines of a long list, and a line that counts the others.

    Args:
        lines: One for each item.
        indent: Put before the last line.

    Example:
        >>> at_most([f"- {n}" for n in range(1_000)])[-2:]
        ['- 29', '... and 970 more.']
    """
    more = len(lines) - MAX_LISTED
    return [*lines[:MAX_LISTED], *([f"{indent}... and {more:,} more."] if more > 0 else [])]


def _compose(headline: str, problems: Iterable[Problem]) -> str:
    listed = list(problems)
    if len(listed) == 1:
        return str(listed[0])
    lines = at_most([f"  - {problem}" for problem in listed], indent="  ")
    return "\n".join([f"{headline} ({len(listed)}):", *lines])


class DeclarationError(PipelineError):
    """A pipeline is declared wrongly; nothing was run.

    Args:
        problems: All problems, each with the file and line of its declaration.

    Example:
        >>> import delta_pipelines as dp
        >>> p = dp.Pipeline("p", schema="s")
        >>> p.upsert("airports", "SELECT 'LHR' AS icao", keys=[])
        >>> try:
        ...     p.graph()
        ... except DeclarationError as error:
        ...     [problem.dataset for problem in error.problems]
        ['airports']
    """

    def __init__(self, problems: str | Problem | Iterable[Problem]) -> None:
        if isinstance(problems, str):
            problems = Problem(problems)
        if isinstance(problems, Problem):
            problems = (problems,)
        self.problems = tuple(problems)
        super().__init__(_compose("The pipeline has problems", self.problems))


class UnknownDatasetError(DeclarationError):
    """A name matches no dataset: in `inputs`, a selection or a full-refresh list.

    Example:
        >>> import delta_pipelines as dp
        >>> p = dp.Pipeline("p", schema="s")
        >>> p.materialized_view("flights", "SELECT 1 AS n")
        >>> p.graph().find("fligths")
        Traceback (most recent call last):
        delta_pipelines.errors.UnknownDatasetError: ...did you mean 'flights'?
    """


class CyclicDependencyError(DeclarationError):
    """Datasets read each other in a cycle; the message names them in order.

    Example:
        >>> import delta_pipelines as dp
        >>> p = dp.Pipeline("p", schema="s")
        >>> p.materialized_view("a", "SELECT * FROM b")
        >>> p.materialized_view("b", "SELECT * FROM a")
        >>> p.graph()
        Traceback (most recent call last):
        delta_pipelines.errors.CyclicDependencyError: ...a -> ...
    """


class UndeclaredInputError(DeclarationError):
    """A query reads other datasets than its declaration says.

    Example:
        >>> import delta_pipelines as dp
        >>> result = sales.run(spark, raise_on_error=False)
        >>> isinstance(result.results["behind_the_back"].error, dp.UndeclaredInputError)
        True
    """


class PlanError(PipelineError):
    """Some datasets cannot be planned, and the run was asked to be strict.

    Args:
        problems: One entry per dataset that cannot be planned.

    Example:
        >>> str(PlanError([Problem("it reads a column that is gone.", "flights")]))
        'flights: it reads a column that is gone.'
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(_compose("Nothing was run, because the plan has problems", self.problems))


class DatasetError(PipelineError):
    """One dataset failed. Its table is unchanged, unless the message says otherwise.

    Commits that the run made before (micro-batches, ranges of partitions) stay.

    Args:
        message: A full sentence: what happened, why, what to do.
        dataset: Declared or qualified name of the dataset.
        transient: True when running it again can help (a conflict, a lost block).

    The attribute `location` is where the dataset was declared, once that is known. `message` is
    only the sentence; `detail` adds the location, without the dataset's name.

    Example:
        >>> error = DatasetError("another run wrote it.", dataset="flights", transient=True)
        >>> str(error), error.message
        ('flights: another run wrote it.', 'another run wrote it.')
    """

    def __init__(
        self, message: str, *, dataset: str | None = None, transient: bool = False
    ) -> None:
        self.dataset = dataset
        self.transient = transient
        self.location: SourceLocation | None = None
        super().__init__(message)

    @property
    def message(self) -> str:
        """Only the sentence."""
        return str(self.args[0])

    @property
    def detail(self) -> str:
        """The sentence and the location, without the dataset's name."""
        return f"{self.message} [{self.location}]" if self.location else self.message

    def __str__(self) -> str:
        return f"{self.dataset}: {self.detail}" if self.dataset else self.detail


def detail(error: Exception | None, names: Iterable[str]) -> str:
    """An error's message without the name of a known dataset.

    Args:
        error: Any error; None gives an empty text.
        names: The names of that dataset; an error about another dataset keeps its name.

    Example:
        >>> detail(DatasetError("its query failed.", dataset="flights"), ["flights"])
        'its query failed.'
        >>> detail(DatasetError("it is a view.", dataset="ext.v"), ["flights"])
        'ext.v: it is a view.'
    """
    if isinstance(error, DatasetError) and _is_about(error, names):
        return error.detail
    return "" if error is None else str(error)


def _is_about(error: DatasetError, names: Iterable[str]) -> bool:
    subject = (error.dataset or "").replace("`", "").lower()
    return not subject or subject in {name.lower() for name in names}


def problem_of(error: Exception, names: Sequence[str], location: SourceLocation | None) -> Problem:
    """Turn an error of one dataset into a problem of a plan.

    Args:
        error: Any error.
        names: The names of the dataset, the declared name first.
        location: Where it was declared.
    """
    if not isinstance(error, DatasetError):
        return Problem(str(error))
    message = error.message if _is_about(error, names) else f"{error.dataset}: {error.message}"
    return Problem(message, names[0], error.location or location)


def as_pipeline_error(
    error: Exception, dataset: str, location: SourceLocation | None
) -> PipelineError:
    """Turn any error of a dataset into an error of this package, with the dataset's location.

    Args:
        error: Any error; an error of this package is returned itself.
        dataset: Declared name of the dataset.
        location: Where it was declared.
    """
    pipeline_error = error
    if not isinstance(pipeline_error, PipelineError):
        pipeline_error = DatasetError(f"{type(error).__name__}: {error}", dataset=dataset)
        pipeline_error.__cause__ = error
    if isinstance(pipeline_error, DatasetError) and pipeline_error.location is None:
        pipeline_error.location = location
        pipeline_error.dataset = pipeline_error.dataset or dataset
    return pipeline_error


class SchemaChangeError(DatasetError):
    """The dataset's kind does not accept a change of its schema or partitioning.

    Example:
        >>> import delta_pipelines as dp
        >>> result = sales.run(spark, raise_on_error=False)
        >>> isinstance(result.results["orders"].error, dp.SchemaChangeError)
        True
    """


class MergeError(DatasetError):
    """A merge was refused or failed.

    The target is unchanged, unless the message says that the commit could not be read back.

    Example:
        >>> import delta_pipelines as dp
        >>> dp.merge_into(None, "air.airports", None, "t.icao = s.icao", executor="fast")
        Traceback (most recent call last):
        delta_pipelines.errors.MergeError: air.airports: ...
    """


class SessionError(PipelineError):
    """No usable Spark session: Java, Delta's settings, the catalog or its lock.

    Example:
        >>> from delta_pipelines.system.postgres_catalog import PostgresCatalog
        >>> PostgresCatalog.of("mysql://etl@localhost/metastore")
        Traceback (most recent call last):
        delta_pipelines.errors.SessionError: ...it does not begin with postgresql://.
    """


class StorageError(SessionError):
    """The object store of a warehouse cannot be used: no access, or it does not keep writers apart.

    Example:
        >>> raise StorageError("s3a://lake/warehouse: The bucket does not exist.")
        Traceback (most recent call last):
        delta_pipelines.errors.StorageError: s3a://lake/warehouse: The bucket does not exist.
    """
