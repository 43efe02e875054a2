"""Redaction of credentials in text that leaves the engine: logs, plans, results, metadata. Pure.

Four things are recognised: values of settings with a credential's name (the pattern of Spark's
`spark.redaction.regex`, and some names that clouds use), the user part of an address, values after
such a name in the text itself (`password=...`, `"token": "..."`, lists of such values), and private
keys in PEM blocks. Any other secret that a user's own code prints cannot be recognised.
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
"""A shorter value is too common to redact everywhere; it is still redacted after its name."""

_NAMES = (
    r"secret(?:[._-]?key)?|passwords?|passwd|passphrase|pwd|token|access[._-]?key|account[._-]?key"
    r"|private[._-]?key|api[._-]?key|signature|passcode|pgpass(?!file)|credentials?(?![\w.-])"
)
_NAME = re.compile(_NAMES, re.IGNORECASE)
_CREDENTIAL_NAME = re.compile(rf"(?:^|[._-])(?:\w*(?:{_NAMES}))$", re.IGNORECASE)
_FOLDERS = ("PWD", "OLDPWD")
"""Environment variables of every shell that are folders, not passwords."""
_SWITCH = re.compile(r"true|false|none|null", re.IGNORECASE)
_NUMBER = re.compile(r"[\d.]+\w?")
MIN_NUMBER_LENGTH = 8
"""A shorter number is not redacted everywhere, as it would hide the same count in every log; a
longer number is, but only if its setting's name ends in a credential's name: limits stay
readable."""
_PACKAGES = r"[a-z]{2,}(?:\.[a-z][a-z\d_]{0,40})+"
_CLASS = re.compile(_PACKAGES + r"\.(?!(?:\D*\d){3})[A-Z][A-Za-z\d]{1,80}(?:\$\w{1,80})?")
"""A Java class such as `org.acme.TokenStore`; tokens of two or three parts do not match."""

# Every repetition is bounded: an error may quote megabytes, and a pattern must not go quadratic.
_ADDRESS = re.compile(
    r"(\b[a-z][\w+.-]{0,40}://)[^\s/:@'\"<>]{0,200}:(?!\d+(?:/|$))[^\s'\"<>]{0,500}@", re.I
)
_ORACLE = re.compile(r"(\bjdbc:oracle:\w+:)[^\s@'\"/]{1,100}/[^\s@'\"]{1,200}@", re.I)
_WORD = rf"(?<![\w.-])[\w.-]{{0,80}}(?:{_NAMES}|\bsig)[\w.-]{{0,60}}"
# What precedes a quoted value: a name, a call's first argument, a name in a list of options.
_OPENED = (
    rf"{_WORD}(?:\\{{0,3}}['\"`])?\s{{0,9}}(?:=>|[=:])\s{{0,9}}[rbfu]{{0,2}}",
    rf"\(\s{{0,99}}['\"]{_WORD}['\"]\s{{0,9}},\s{{0,99}}[rbfu]{{0,2}}",
    rf"[(,]\s{{0,99}}['\"`]?{_WORD}['\"`]?\s{{1,9}}",
)
# A quoted value may lack its closing quote. The pattern takes the rest, so nothing is read twice.
_TRIPLE = [re.compile(rf"({o})(\"\"\"|''')(.*?)(?:\2|\Z)", re.I | re.S) for o in _OPENED]
_CONTENT = r"(?:\2\2|(?!\2)(?:\\.|[^\\\n]))+"
_QUOTED = [re.compile(rf"({o})(\\{{0,3}}['\"])(?!\2){_CONTENT}(?:\2)?", re.I) for o in _OPENED]
_BARE = re.compile(rf"({_WORD}\s{{0,9}}=\s{{0,9}})(?![=>\s'\"]|[\[(]\*\*\*)[^\s&;,)'\"\]}}]+", re.I)
_TYPES = (
    r"str(?:ing)?|int(?:eger)?|bigint|long|smallint|short|tinyint|byte|float|double|decimal"
    r"|bool(?:ean)?|binary|bytes|date|timestamp\w*|array|map|struct|variant|char|varchar|object"
    r"|any|optional|true|false|none|null"
)
_YAML = re.compile(
    rf"((?<![\w.-])[\w.-]{{0,80}}(?:{_NAMES})[ \t]{{0,9}}:[ \t]{{0,9}})"
    rf"(?!(?:{_TYPES})\b|\d{{1,5}}\b|//|[\[(]?\*\*\*)[^\s:=>\\'\"&;,)\]}}][^\s&;,)'\"\]}}]*",
    re.I,
)
"""A header or a line of YAML; not a column's type or a count after the colon."""
_BRACED = re.compile(
    rf"({_WORD}\s{{0,9}}=\s{{0,9}})\{{(?!\}})(?:[^}}\n]|\}}\}}|\}}(?![\s;&,)'\"\]]|\Z))*\}}?", re.I
)
"""A value in the notation of ODBC and JDBC, `password={a;b}`; `}}` is an escaped brace."""
_LISTED = re.compile(rf"{_WORD}(?:\\{{0,3}}['\"`])?\s{{0,9}}(?:=>|[=:])\s{{0,9}}[\[(]", re.I)
_BEARER = re.compile(r"(\b(?:Bearer|Basic)\s+)(?=\S{0,200}\d)[\w.~+/=-]{12,}")

E = TypeVar("E", bound=BaseException)


class RedactedCause(Exception):
    """Replaces an exception with a credential in its text; holds the whole redacted traceback."""


def is_sensitive(name: str) -> bool:
    """True when a setting with this name may contain a credential.

    Example:
        >>> is_sensitive("spark.hadoop.fs.s3a.secret.key"), is_sensitive("delta.appendOnly")
        (True, False)
    """
    return _NAME.search(name) is not None


def is_credential(name: str, value: str) -> bool:
    """True when a name and its value are almost certainly a credential.

    Narrower than `is_sensitive`, because such a setting is rejected, not only redacted.

    Example:
        >>> is_credential("jdbc.password", "hunter22"), is_credential("tokenizer", "bpe")
        (True, False)
    """
    # A rejection hides no other text, so shorter numbers count here than in a redaction.
    number = _NUMBER.fullmatch(value) and not (value.isdigit() and len(value) >= MIN_SECRET_LENGTH)
    plain = number or _is_switch_or_class(value)
    named = _CREDENTIAL_NAME.search(name) is not None and not plain
    return bool(value) and (named or _ADDRESS.sub("", value) != value)


def _is_switch_or_class(value: str) -> bool:
    return bool(_SWITCH.fullmatch(value) or _CLASS.fullmatch(value))


def _is_known(name: str, value: str) -> bool:
    """True when a sensitive setting's value is to be redacted everywhere in a text."""
    if len(value) < MIN_SECRET_LENGTH or _is_switch_or_class(value):
        return False
    long_enough = len(value) >= MIN_NUMBER_LENGTH and _CREDENTIAL_NAME.search(name) is not None
    return long_enough or not _NUMBER.fullmatch(value)


@dataclass(frozen=True)
class Redaction:
    """The credentials to redact, and methods that redact them.

    Args:
        secrets: Values that are credentials.
        names: An additional pattern of credentials' names; may be empty.

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
        """Create a redaction of the credentials in settings or environment variables.

        Args:
            *settings: Names and values; a `spark.redaction.regex` in them is applied too.
        """
        pattern = next((s[SPARK_PATTERN_KEY] for s in settings if SPARK_PATTERN_KEY in s), "")
        redaction = cls(names=pattern)
        return redaction.knowing(*settings)

    def knowing(self, *settings: Mapping[str, str]) -> "Redaction":
        """Return a redaction that also knows the credentials of further settings."""
        named = ((k, v) for group in settings for k, v in group.items() if self.sensitive(k))
        found = {value for name, value in named if _is_known(name, value)}
        return Redaction(self.secrets | found, self.names)

    def sensitive(self, name: str) -> bool:
        """True when a setting with this name may contain a credential."""
        if name in _FOLDERS:
            return False
        return is_sensitive(name) or (self._own is not None and bool(self._own.search(name)))

    def text(self, text: str) -> str:
        """Redact a text."""
        text = without_lists(text, _LISTED, REDACTED, only_literals=False)
        text = _BRACED.sub(rf"\1{REDACTED}", text)
        return _YAML.sub(rf"\1{REDACTED}", _BARE.sub(rf"\1{REDACTED}", self.code(text)))

    def code(self, code: str) -> str:
        """Redact source code: known credentials and literals; the names stay."""
        if self._known is not None:
            code = self._known.sub(REDACTED, code)
        code = without_private_keys(code, REDACTED)
        code = without_lists(code, _LISTED, REDACTED, only_literals=True)
        code = _ORACLE.sub(rf"\1{REDACTED}@", _ADDRESS.sub(rf"\1{REDACTED}@", code))
        for literal in (*_TRIPLE, *_QUOTED):
            code = literal.sub(rf"\1\2{REDACTED}\2", code)
        return _BEARER.sub(rf"\1{REDACTED}", code)

    def data(self, value: Any) -> Any:
        """Redact strings, also in lists, tuples and mappings; other values stay as they are."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.data(k): self.data(v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self.data(item) for item in value)
        return value

    def result(self, result: "DatasetResult") -> "DatasetResult":
        """Redact a dataset's result; its error is changed in place."""
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
        """Redact an error of this package in place, and the causes of any error.

        A printed error shows its causes too, and Dagster stores them; so a cause with a credential
        is replaced by a `RedactedCause` with the same traceback.
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
            trace = "".join(traceback.format_exception(cause))
            if self.text(trace) != trace:
                error.__cause__ = RedactedCause(self.text(trace))
            elif error.__cause__ is None:
                return error
            error.__context__ = None
        return error

    def trace(self, error: BaseException) -> str:
        """Format an error's traceback with its causes, and redact it."""
        return self.text("".join(traceback.format_exception(error)))

    def anybodys(self, error: Exception) -> Exception:
        """Redact any exception and its causes.

        An error without a credential in its text or traceback stays as it is. Otherwise, if its
        text comes from its arguments, it keeps its type, and its traceback moves into its cause.
        An error with a fixed text, such as one from the JVM, is replaced by a `RedactedCause`.

        Returns:
            The error to raise, with its cause set.

        Example:
            >>> Redaction().anybodys(KeyError("password=hunter22"))
            KeyError('password=***')
        """
        error = self.error(error)
        trace = "".join(traceback.format_exception(error))
        redacted = self.text(trace)
        if redacted == trace:
            return error
        try:
            error.args = self.data(error.args)
            error.__dict__.update(self.data(vars(error)))
        except Exception:  # noqa: BLE001 - a user's class may forbid to set attributes
            return RedactedCause(redacted)
        error.__cause__, error.__context__ = RedactedCause(redacted), None
        error = error.with_traceback(None)
        left = "".join(traceback.format_exception_only(type(error), error))
        return error if self.text(left) == left else RedactedCause(redacted)

    @cached_property
    def _own(self) -> re.Pattern[str] | None:
        try:
            return re.compile(self.names) if self.names else None
        except re.error:  # a Java pattern that is not valid in Python
            return None

    @cached_property
    def _known(self) -> re.Pattern[str] | None:
        written = {form for secret in self.secrets for form in _written(secret)}
        longest_first = sorted(written, key=lambda form: (-len(form), form))
        return re.compile("|".join(map(re.escape, longest_first))) if longest_first else None


def _written(secret: str) -> Iterable[str]:
    """Forms of a value: as it is, in an address, and in a Python, JSON or SQL literal."""
    addresses = {quote(secret, safe=""), quote_plus(secret)}
    literals = {repr(secret)[1:-1], json.dumps(secret)[1:-1], secret.replace("'", "''")}
    return {secret} | addresses | literals
