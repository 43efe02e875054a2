"""The user's own code that a function reaches, as text that is the same in every process.

Code is told by what runs, its compiled form, and never by its source file: a file that was edited
under a running process says what the next process will do, not what this one did.
"""

import datetime
import decimal
import functools
import logging
import re
import types
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePath
from typing import Any

from delta_pipelines.body_imports import imported_code
from delta_pipelines.code_text import code_text, listed, names_used
from delta_pipelines.own_code import OwnCode

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...))
_TOLD_BY_REPR = (
    *(datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo),
    *(decimal.Decimal, uuid.UUID, PurePath, range, slice),
)
_WITHOUT_CONTENT = ("delta_pipelines", "logging", "pyspark", "threading", "_thread")
"""Packages whose objects (sessions, loggers, locks, pipelines) decide no row by themselves."""
_BOOKKEEPING = frozenset(
    {
        *("__module__", "__qualname__", "__dict__", "__weakref__", "__doc__", "__hash__"),
        *("__firstlineno__", "__static_attributes__", "__slotnames__", "__abstractmethods__"),
        *("__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__"),
        "_abc_impl",
    }
)
MAX_ITEMS = 10_000
"""A longer list or mapping is not looked into."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReachedCode:
    """A function, and what of the user's own code it reaches.

    Args:
        text: Changes when any of it changes; for hashing.
        unseen: Names of values that it uses and whose content cannot be told.
    """

    text: str
    unseen: tuple[str, ...] = ()


def reached_code(function: object) -> ReachedCode:
    """Tell a function by its code, its closure and defaults, and the same of what it reaches.

    Reached are functions, classes and constants of the same top-level package, of `__main__` and
    of every other module that is neither Python's own nor installed, through any number of steps.
    Installed libraries count by name only. Nothing is
    imported or called, and nothing raises: what cannot be told is named in `unseen`.

    Args:
        function: Any callable; a Spark UDF is told by its Python function.

    Example:
        >>> rate = 2
        >>> reached_code(lambda n: n * rate) == reached_code(lambda n: n * 3)
        False
    """
    name = str(getattr(function, "__name__", type(function).__name__))
    try:
        reader = _Reader(OwnCode.around(function))
        text = reader.told(function, name)
    except Exception as error:
        # Objects of users do anything when they are looked at.
        log.debug("cannot tell the code of %s", name, exc_info=True)
        code = getattr(function, "__code__", None)
        own = code_text(code) if isinstance(code, types.CodeType) else ""
        return ReachedCode(f"untold {type(error).__name__} {own}", (name,))
    return ReachedCode(text, tuple(dict.fromkeys(reader.unseen)))


class _Reader:
    def __init__(self, own: OwnCode) -> None:
        self._own = own
        self._seen: dict[int, tuple[int, object]] = {}
        self.unseen: list[str] = []

    def told(self, value: Any, name: str) -> str:
        if isinstance(value, Enum):
            return f"{type(value).__qualname__}.{value.name}={value.value!r}"
        if isinstance(value, _PLAIN) and type(value) in _PLAIN:
            return f"{type(value).__name__} {value!r}"
        if isinstance(value, _TOLD_BY_REPR):
            return repr(value)
        if isinstance(value, re.Pattern):
            return f"pattern {value.pattern!r} {value.flags}"
        if id(value) in self._seen:
            return f"@{self._seen[id(value)][0]}"
        # The value is kept, so that no other one gets its id.
        self._seen[id(value)] = (len(self._seen), value)
        return self._composed(value, name)

    def _composed(self, value: Any, name: str) -> str:
        if isinstance(value, (list, tuple, set, frozenset, Mapping)):
            return self._collection(value, name)
        if isinstance(value, functools.partial):
            return self._all(name, partial=value.func, of=value.args, by=value.keywords)
        if isinstance(value, (staticmethod, classmethod)):
            return self.told(value.__func__, name)
        if isinstance(value, property):
            return self._all(name, get=value.fget, set=value.fset)
        if isinstance(value, types.MethodType):
            return self._all(name, method=value.__func__, of=value.__self__)
        if hasattr(value, "evalType") and hasattr(value, "func"):
            return self._udf(value, name)
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, types.ModuleType):
            return f"module {value.__name__}"
        if isinstance(value, type):
            return self._class(value)
        if hasattr(value, "__wrapped__"):
            return self.told(value.__wrapped__, name)
        if isinstance(value, types.BuiltinFunctionType):
            return f"builtin {value.__module__}.{value.__qualname__}"
        return self._instance(value, name)

    def _collection(self, value: Any, name: str) -> str:
        if len(value) > MAX_ITEMS:
            self.unseen.append(name)
            return f"{type(value).__name__} of {len(value)}"
        if isinstance(value, Mapping):
            pairs = [f"{self.told(k, name)}: {self.told(v, name)}" for k, v in value.items()]
            return f"{type(value).__name__} {listed(pairs)}"
        told = [self.told(item, name) for item in value]
        ordered = sorted(told) if isinstance(value, (set, frozenset)) else told
        return f"{type(value).__name__} {listed(ordered)}"

    def _all(self, name: str, **values: object) -> str:
        return " ".join(f"{key}={self.told(value, name)}" for key, value in values.items())

    def _udf(self, udf: Any, name: str) -> str:
        kind = f"udf {udf.evalType} {getattr(udf, 'deterministic', None)}"
        return f"{kind} {getattr(udf, 'returnType', None)!r} {self.told(udf.func, name)}"

    def _function(self, function: types.FunctionType) -> str:
        if not self._own.has(function.__module__, function.__code__.co_filename):
            return f"library {function.__module__}.{function.__qualname__}"
        code = function.__code__
        cells = zip(code.co_freevars, function.__closure__ or (), strict=False)
        parts = [code_text(code, function.__doc__)]
        parts += [f"{n}={self.told(_content(cell), n)}" for n, cell in cells]
        parts.append(self.told(function.__defaults__, "defaults"))
        parts.append(self.told(function.__kwdefaults__, "defaults"))
        parts += self._globals(code, function.__globals__)
        return f"function {listed(parts)}"

    def _globals(self, code: types.CodeType, scope: Mapping[str, Any]) -> Iterator[str]:
        names = list(dict.fromkeys(names_used(code)))
        for name in names:
            if name in scope:
                yield f"{name}={self.told(scope[name], name)}"
                yield from self._members(scope[name], names)
        for path, imported in imported_code(code, str(scope.get("__package__") or ""), self._own):
            yield f"{path.stem}={code_text(imported)}"

    def _members(self, module: object, names: Iterable[str]) -> Iterator[str]:
        """What is used of a module of one's own: `landing.FOLDER`."""
        if not isinstance(module, types.ModuleType):
            return
        if not self._own.has(module.__name__, getattr(module, "__file__", None)):
            return
        for name in names:
            member = vars(module).get(name, module)
            if member is not module:
                yield f"{name}={self.told(member, name)}"
                if id(member) != id(module) and isinstance(member, types.ModuleType):
                    yield from self._members(member, [n for n in names if n != name])

    def _class(self, kind: type) -> str:
        if not self._own.has(kind.__module__, None):
            return f"library {kind.__module__}.{kind.__qualname__}"
        members = {n: v for n, v in vars(kind).items() if n not in _BOOKKEEPING}
        told = [f"{n}={self.told(v, n)}" for n, v in members.items() if not _is_slot(v)]
        bases = [self.told(base, base.__name__) for base in kind.__bases__]
        return f"class {kind.__qualname__} {listed(bases)} {listed(told)}"

    def _instance(self, value: Any, name: str) -> str:
        kind = type(value)
        if kind.__module__.startswith("pyspark.sql.types"):
            return f"type {value.json()}"
        if self._own.has(kind.__module__, None):
            slots = [s for base in kind.__mro__ for s in getattr(base, "__slots__", ())]
            state = {s: getattr(value, s) for s in slots if s != "__dict__" and hasattr(value, s)}
            state |= getattr(value, "__dict__", {})
            return f"{self.told(kind, name)} {self.told(state, name)}"
        if kind.__module__.split(".")[0] not in _WITHOUT_CONTENT:
            self.unseen.append(name)
        return f"a {kind.__module__}.{kind.__qualname__}"


def _content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _is_slot(value: object) -> bool:
    return isinstance(value, (types.MemberDescriptorType, types.GetSetDescriptorType))
