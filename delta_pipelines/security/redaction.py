"""Credentials taken out of text before it leaves the engine: logs, plans, results, metadata. Pure.

Four things are known to be credentials: the value of a setting whose name says so (the pattern of
Spark's `spark.redaction.regex`, and a few names that clouds use), the user part of an address,
whatever stands behind such a name in the text itself (`password=...`, `"token": "..."`, lists of
such values), and private keys in PEM blocks. A value that came from nowhere of that sort and that a
user's own code prints cannot be recognised.
"""

import json
import re
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, quote_plus

from delta_pipelines.errors import DatasetError, DeclarationError, PipelineError, PlanError
from delta_pipelines.model.expectation_result import ExpectationError
from delta_pipelines.security.secret_blocks import without_lists, without_private_keys

if TYPE_CHECKING:
    from delta_pipelines.model.expectation_result import ExpectationResult
    from delta_pipelines.model.results import DatasetResult

REDACTED = "***"
SPARK_PATTERN_KEY = "spark.redaction.regex"
MIN_SECRET_LENGTH = 6
"""A shorter value is a word of many texts; it is still recognised behind its name."""

_NAMES = (
    r"secret(?:[._-]?key)?|passwords?|passwd|passphrase|pwd|token|access[._-]?key|account[._-]?key"
    r"|private[._-]?key|api[._-]?key|signature|passcode|pgpass(?!file)|credentials?(?![\w.-])"
)
_NAME = re.compile(_NAMES, re.IGNORECASE)
_CREDENTIAL_NAME = re.compile(rf"(?:^|[._-])(?:\w*(?:{_NAMES}))$", re.IGNORECASE)
_FOLDERS = ("PWD", "OLDPWD")
"""Environment variables of every shell that only sound like passwords."""
_SWITCH = re.compile(r"true|false|none|null", re.IGNORECASE)
_NUMBER = re.compile(r"[\d.]+\w?")
MIN_NUMBER_LENGTH = 8
"""A shorter number is no known secret, or every such count in a log would be hidden; and a longer
one is known only where its setting ends in a credential's name, so that limits stay readable."""
_PACKAGES = r"[a-z]{2,}(?:\.[a-z][a-z\d_]{0,40})+"
_CLASS = re.compile(_PACKAGES + r"\.(?!(?:\D*\d){3})[A-Z][A-Za-z\d]{1,80}(?:\$\w{1,80})?")
"""A class of Java's, `org.acme.TokenStore`; a token in two or three parts has another look."""

# Every repetition is bounded: an error may quote megabytes, and a pattern must not go quadratic.
_ADDRESS = re.compile(
    r"(\b[a-z][\w+.-]{0,40}://)[^\s/:@'\"<>]{0,200}:(?!\d+(?:/|$))[^\s'\"<>]{0,500}@", re.I
)
_ORACLE = re.compile(r"(\bjdbc:oracle:\w+:)[^\s@'\"/]{1,100}/[^\s@'\"]{1,200}@", re.I)
_WORD = rf"(?<![\w.-])[\w.-]{{0,80}}(?:{_NAMES}|\bsig)[\w.-]{{0,60}}"
# What opens a text: behind a name, as the value of a call's second argument, in a list of options.
_OPENED = (
    rf"{_WORD}(?:\\{{0,3}}['\"`])?\s{{0,9}}(?:=>|[=:])\s{{0,9}}[rbfu]{{0,2}}",
    rf"\(\s{{0,99}}['\"]{_WORD}['\"]\s{{0,9}},\s{{0,99}}[rbfu]{{0,2}}",
    rf"[(,]\s{{0,99}}['\"`]?{_WORD}['\"`]?\s{{1,9}}",
)
# A text may be cut off before it ends. Its content takes all there is, so nothing is read twice.
_TRIPLE = [re.compile(rf"({o})(\"\"\"|''')(.*?)(?:\2|\Z)", re.I | re.S) for o in _OPENED]
_CONTENT = r"(?:\2\2|(?!\2)(?:\\.|[^\\\n]))+"
_QUOTED = [re.compile(rf"({o})(\\{{0,3}}['\"])(?!\2){_CONTENT}(?:\2)?", re.I) for o in _OPENED]
_BARE = re.compile(rf"({_WORD}\s{{0,9}}=\s{{0,9}})(?![=>\s'\"]|[\[(]\*\*\*)[^\s&;,)'\"\]}}]+", re.I)
_TYPES = (
    r"str(?:ing)?|int(?:eger)?|bigint|long|smallint|short|tinyint|byte|float|double|decimal"
    r"|bool(?:ean)?|binary|bytes|date|timestamp\w*|array|map|struct|variant|char|varchar|object"
    r"|any|optional|true|false|none|null"
)
_TOLD = re.compile(
    rf"((?<![\w.-])[\w.-]{{0,80}}(?:{_NAMES})[ \t]{{0,9}}:[ \t]{{0,9}})"
    rf"(?!(?:{_TYPES})\b|\d{{1,5}}\b|//|[\[(]?\*\*\*)[^\s:=>\\'\"&;,)\]}}][^\s&;,)'\"\]}}]*",
    re.I,
)
"""A header or a line of YAML; what follows may also be a column's type or a count."""
_BRACED = re.compile(
    rf"({_WORD}\s{{0,9}}=\s{{0,9}})\{{(?!\}})(?:[^}}\n]|\}}\}}|\}}(?![\s;&,)'\"\]]|\Z))*\}}?", re.I
)
"""A value as ODBC and JDBC write it, `password={a;b}`, where `}}` stands for one brace."""
_LISTED = re.compile(rf"{_WORD}(?:\\{{0,3}}['\"`])?\s{{0,9}}(?:=>|[=:])\s{{0,9}}[\[(]", re.I)
_BEARER = re.compile(r"(\b(?:Bearer|Basic)\s+)(?=\S{0,200}\d)[\w.~+/=-]{12,}")

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)


class RedactedCause(Exception):
    """Stands for an exception whose text held a credential; its own text is the whole trace."""


def is_sensitive(name: str) -> bool:
    """True when a setting of this name may hold a credential.

    Example:
        >>> is_sensitive("spark.hadoop.fs.s3a.secret.key"), is_sensitive("delta.appendOnly")
        (True, False)
    """
    return _NAME.search(name) is not None


def is_credential(name: str, value: str) -> bool:
    """True when a name and its value can hardly be anything but a credential.

    Narrower than `is_sensitive`: for what is refused, not only hidden.

    Example:
        >>> is_credential("jdbc.password", "hunter22"), is_credential("tokenizer", "bpe")
        (True, False)
    """
    # Refusing hides nothing else, so a number need not be as long as one that is redacted.
    number = _NUMBER.fullmatch(value) and not (value.isdigit() and len(value) >= MIN_SECRET_LENGTH)
    plain = number or _is_switch_or_class(value)
    named = _CREDENTIAL_NAME.search(name) is not None and not plain
    return bool(value) and (named or _ADDRESS.sub("", value) != value)


def _is_switch_or_class(value: str) -> bool:
    return bool(_SWITCH.fullmatch(value) or _CLASS.fullmatch(value))


def _is_known(name: str, value: str) -> bool:
    """True when the value of a setting that may hold a credential is one wherever it stands."""
    if len(value) < MIN_SECRET_LENGTH or _is_switch_or_class(value):
        return False
    long_enough = len(value) >= MIN_NUMBER_LENGTH and _CREDENTIAL_NAME.search(name) is not None
    return long_enough or not _NUMBER.fullmatch(value)


@dataclass(frozen=True)
class Redaction:
    """What to take out of text.

    Args:
        secrets: Values that are credentials.
        names: A further pattern of names whose values are credentials; empty for none.

    Example:
        >>> Redaction().text("jdbc:postgresql://u:abc@h/db?password=abc&ssl=true")
        'jdbc:postgresql://***@h/db?password=***&ssl=true'
        >>> Redaction(frozenset(["hunter22"])).text("cannot log in with hunter22")
        'cannot log in with ***'
    """

    secrets: frozenset[str] = frozenset()
    names: str = ""

    @classmethod
    def of(cls, *settings: Mapping[str, str]) -> "Redaction":
        """Know the credentials that stand in settings or in environment variables.

        Args:
            *settings: Names and values; a `spark.redaction.regex` among them counts too.
        """
        pattern = next((s[SPARK_PATTERN_KEY] for s in settings if SPARK_PATTERN_KEY in s), "")
        known = cls(names=pattern)
        return known.knowing(*settings)

    def knowing(self, *settings: Mapping[str, str]) -> "Redaction":
        """Know the credentials of further settings too."""
        named = ((k, v) for some in settings for k, v in some.items() if self.sensitive(k))
        found = {value for name, value in named if _is_known(name, value)}
        return Redaction(self.secrets | found, self.names)

    def sensitive(self, name: str) -> bool:
        """True when a setting of this name may hold a credential."""
        if name in _FOLDERS:
            return False
        return is_sensitive(name) or (self._own is not None and bool(self._own.search(name)))

    def text(self, text: str) -> str:
        """The text without credentials."""
        text = without_lists(text, _LISTED, REDACTED, only_literals=False)
        text = _BRACED.sub(rf"\1{REDACTED}", text)
        return _TOLD.sub(rf"\1{REDACTED}", _BARE.sub(rf"\1{REDACTED}", self.code(text)))

    def code(self, code: str) -> str:
        """Source code without credentials that stand in it as literals; its names stay."""
        if self._known is not None:
            code = self._known.sub(REDACTED, code)
        code = without_private_keys(code, REDACTED)
        code = without_lists(code, _LISTED, REDACTED, only_literals=True)
        code = _ORACLE.sub(rf"\1{REDACTED}@", _ADDRESS.sub(rf"\1{REDACTED}@", code))
        for literal in (*_TRIPLE, *_QUOTED):
            code = literal.sub(rf"\1\2{REDACTED}\2", code)
        return _BEARER.sub(rf"\1{REDACTED}", code)

    def value(self, name: str, value: T) -> T | str:
        """A setting's value, without credentials."""
        if isinstance(value, str):
            return REDACTED if value and self.sensitive(name) else self.text(value)
        return value

    def data(self, value: Any) -> Any:
        """Plain values (texts, lists, mappings by name) without credentials; others as they are."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.data(k): self.data(v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self.data(item) for item in value)
        return value

    def result(self, result: "DatasetResult") -> "DatasetResult":
        """A dataset's result without credentials; its error is changed in place."""
        facts = result.facts
        if facts is not None and facts.location is not None:
            facts = replace(facts, location=self.text(facts.location))
        return replace(
            result,
            reason=self.text(result.reason),
            error=self.error(result.error) if result.error is not None else None,
            facts=facts,
            changes=self.data(result.changes),
            inputs=self.data(result.inputs),
            notes=self.data(result.notes),
            expectations=self._expectations(result.expectations),
        )

    def _expectations(
        self, results: "tuple[ExpectationResult, ...]"
    ) -> "tuple[ExpectationResult, ...]":
        return tuple(replace(e, condition=self.text(e.condition)) for e in results)

    def error(self, error: E) -> E:
        """Take credentials out of an error of ours, in place, and out of what caused it.

        Whoever prints the error prints its causes too (Dagster stores them), so a cause that holds
        a credential gives way to a `RedactedCause` with the same trace.

        Args:
            error: Any error; of one that is not ours only the causes are looked at.
        """
        if isinstance(error, PipelineError):
            error.args = self.data(error.args)
            if isinstance(error, DatasetError) and error.dataset:
                error.dataset = self.text(error.dataset)
            if isinstance(error, ExpectationError):
                error.results = self._expectations(error.results)
            if isinstance(error, DeclarationError | PlanError):
                error.problems = tuple(
                    replace(p, message=self.text(p.message)) for p in error.problems
                )
        cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if cause is not None and not isinstance(cause, RedactedCause):
            told = "".join(traceback.format_exception(cause))
            if self.text(told) != told:
                error.__cause__ = RedactedCause(self.text(told))
            elif error.__cause__ is None:
                return error
            error.__context__ = None
        return error

    def trace(self, error: BaseException) -> str:
        """An error's whole trace, with its causes, without credentials."""
        return self.text("".join(traceback.format_exception(error)))

    def anybodys(self, error: Exception) -> Exception:
        """Take credentials out of an error that may be anybody's, and out of what caused it.

        One that holds none, in its text or in its trace, stays as it is. Else it keeps its type
        where its text comes from its arguments, and loses its trace, which its cause tells then;
        a JVM's error and the like, whose text cannot be changed, gives way to a `RedactedCause`.

        Args:
            error: Any error.

        Returns:
            The error to raise, with the cause that it is to have.

        Example:
            >>> Redaction().anybodys(KeyError("password=hunter22"))
            KeyError('password=***')
        """
        error = self.error(error)
        told = "".join(traceback.format_exception(error))
        redacted = self.text(told)
        if redacted == told:
            return error
        try:
            error.args = self.data(error.args)
            error.__dict__.update(self.data(vars(error)))
        except Exception:  # noqa: BLE001 - whoever wrote the class decides what can be set
            return RedactedCause(redacted)
        error.__cause__, error.__context__ = RedactedCause(redacted), None
        error = error.with_traceback(None)
        left = "".join(traceback.format_exception_only(type(error), error))
        return error if self.text(left) == left else RedactedCause(redacted)

    @cached_property
    def _own(self) -> re.Pattern[str] | None:
        try:
            return re.compile(self.names) if self.names else None
        except re.error:  # a pattern of Java's that Python does not read
            return None

    @cached_property
    def _known(self) -> re.Pattern[str] | None:
        written = {form for secret in self.secrets for form in _written(secret)}
        longest_first = sorted(written, key=lambda form: (-len(form), form))
        return re.compile("|".join(map(re.escape, longest_first))) if longest_first else None


def _written(secret: str) -> Iterable[str]:
    """A value as it is, in an address, and in a Python, JSON or SQL text."""
    addresses = {quote(secret, safe=""), quote_plus(secret)}
    literals = {repr(secret)[1:-1], json.dumps(secret)[1:-1], secret.replace("'", "''")}
    return {secret} | addresses | literals
