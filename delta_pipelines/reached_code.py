"""The user's own code that a function reaches, as text that is the same in every process.

Code is told by what runs, its compiled form, and never by its source file: a file that was edited
under a running process says what the next process will do, not what this one did.
"""

import logging
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from delta_pipelines.body_imports import imported_code
from delta_pipelines.code_text import code_text, listed, names_used
from delta_pipelines.own_code import OwnCode
from delta_pipelines.value_parts import BOOKKEEPING, PLAIN, members, parts

_WITHOUT_CONTENT = frozenset(
    {
        *("delta_pipelines", "logging", "pyspark", "threading", "typing", "typing_extensions"),
        *("weakref", "_thread", "_weakref", "_weakrefset"),
    }
)
"""Packages whose objects (sessions, loggers, locks, caches) decide no row by themselves."""
_VALUES = ("pyspark.ml.linalg.", "pyspark.mllib.linalg.", "pyspark.sql.types.VariantVal")
"""Of PySpark's own objects those that are values: vectors and matrices."""
_BUILT_IN = (types.BuiltinFunctionType, types.MethodWrapperType)
_OF_BUILT_IN = (
    *(types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType),
    *(types.GetSetDescriptorType, types.MemberDescriptorType),
)
MAX_ITEMS = 10_000
"""A longer collection is not looked into."""
MAX_REPEATED = 100_000
"""So many values are told once more where elements of sets share them."""

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
    return ReachedCode(text, tuple(sorted(set(reader.unseen))))


class _Reader:
    """Tells values by one rule: their type, then their attributes, then what they hold."""

    def __init__(self, own: OwnCode) -> None:
        self._own = own
        self._seen: dict[int, tuple[int, object]] = {}
        self._repeated = 0
        self._names: tuple[str, ...] = ()
        """Used by the function that is being told."""
        self.unseen: list[str] = []

    def told(self, value: Any, name: str) -> str:
        if isinstance(value, types.ModuleType):
            return self._module(value)
        if type(value) in PLAIN:
            return f"{type(value).__name__} {value!r}"
        if type(value) is tuple and all(type(item) in PLAIN for item in value):
            # Whether two equal ones are one object is the compiler's business.
            return f"tuple {value!r}" if len(value) <= MAX_ITEMS else self._long(value, name)
        if id(value) in self._seen:
            return f"@{self._seen[id(value)][0]}"
        # The value is kept, so that no other one gets its id.
        self._seen[id(value)] = (len(self._seen), value)
        return self._composed(value, name)

    def _composed(self, value: Any, name: str) -> str:
        kind = type(value)
        if kind in (list, tuple, set, frozenset, dict):
            return self._collection(value, name)
        if isinstance(getattr(value, "evalType", None), int) and hasattr(value, "func"):
            return self._udf(value, name)
        if kind is types.FunctionType:
            return self._function(value)
        if kind is types.CodeType:
            return f"code {code_text(value)}"
        origin = typing.get_origin(value)
        if origin is not None and origin is not value:
            return f"alias {self.told((origin, *typing.get_args(value)), name)}"
        if isinstance(value, type):
            return self._class(value)
        if issubclass(kind, _BUILT_IN):
            return self._built_in(value, name)
        if kind in _OF_BUILT_IN:
            return f"of {value.__objclass__.__qualname__} {value.__name__}"
        return self._instance(value, name)

    def _collection(self, value: Any, name: str) -> str:
        kind = type(value).__name__
        if len(value) > MAX_ITEMS:
            return self._long(value, name)
        if isinstance(value, dict):
            pairs = [f"{self.told(k, name)}: {self.told(v, name)}" for k, v in value.items()]
            return f"{kind} {listed(pairs)}"
        if isinstance(value, (list, tuple)):
            return f"{kind} {listed(self.told(item, name) for item in value)}"
        # The order of a set differs between processes, and what is told first is told in full. So
        # elements refer to what was told before the set, and not to each other.
        kinds = {type(item) for item in value} - {*PLAIN}
        ordered = sorted(kinds, key=lambda k: (k.__module__, k.__qualname__))
        shared = [self.told(k, name) for k in ordered]
        alone = sorted(self._alone(item, name) for item in value)
        return f"{kind} {listed(shared)} {listed(alone)}"

    def _alone(self, item: object, name: str) -> str:
        if self._repeated > MAX_REPEATED:
            self.unseen.append(name)
            return "one of many"
        mark = len(self._seen)
        text = self.told(item, name)
        while len(self._seen) > mark:
            self._seen.popitem()
            self._repeated += 1
        return text

    def _long(self, value: Any, name: str) -> str:
        self.unseen.append(name)
        return f"{type(value).__name__} of {len(value)}"

    def _udf(self, udf: Any, name: str) -> str:
        kind = f"udf {udf.evalType} {getattr(udf, 'deterministic', None)}"
        return f"{kind} {getattr(udf, 'returnType', None)!r} {self.told(udf.func, name)}"

    def _function(self, function: types.FunctionType) -> str:
        module, code = function.__module__, function.__code__
        if not self._own.has(module, code.co_filename):
            wrapped = getattr(function, "__wrapped__", None)
            if wrapped is not None and self._own.has(module, None):
                # A library's decorator: what it keeps of calls and times is no code.
                return f"library's {code.co_name} {self.told(wrapped, code.co_name)}"
            return f"library {function.__module__}.{function.__qualname__}"
        before, self._names = self._names, tuple(dict.fromkeys(names_used(code)))
        try:
            return self._opened(function)
        finally:
            self._names = before

    def _opened(self, function: types.FunctionType) -> str:
        code = function.__code__
        cells = zip(code.co_freevars, function.__closure__ or (), strict=False)
        told = [code_text(code, function.__doc__)]
        told += [f"{n}={self.told(_content(cell), n)}" for n, cell in cells]
        told.append(self.told(function.__defaults__, "defaults"))
        told.append(self.told(function.__kwdefaults__, "defaults"))
        attributes = {n: v for n, v in vars(function).items() if n not in BOOKKEEPING}
        told += [f".{n}={self.told(v, n)}" for n, v in attributes.items()]
        told += self._globals(code, function.__globals__)
        return f"function {listed(told)}"

    def _globals(self, code: types.CodeType, scope: Mapping[str, Any]) -> Iterator[str]:
        for name in self._names:
            if name in scope:
                yield f"{name}={self._used(scope[name], name)}"
                yield from self._members(scope[name], self._names)
        for path, imported in imported_code(code, str(scope.get("__package__") or ""), self._own):
            yield f"{path.stem}={code_text(imported)}"

    def _used(self, value: object, name: str) -> str:
        """What a name in the code stands for; of a module is told what the code uses of it."""
        if isinstance(value, types.ModuleType):
            return f"module {value.__name__}"
        return self.told(value, name)

    def _module(self, module: types.ModuleType) -> str:
        """A module that is a value (in a list, in a closure): what the code may use of it."""
        members = list(self._members(module, self._names))
        return f"module {module.__name__}" + (f" {listed(members)}" if members else "")

    def _members(self, module: object, names: Iterable[str]) -> Iterator[str]:
        """What is used of a module of one's own: `landing.FOLDER`."""
        if not isinstance(module, types.ModuleType):
            return
        if not self._own.has(module.__name__, getattr(module, "__file__", None)):
            return
        for name in names:
            member = vars(module).get(name, module)
            if member is not module:
                yield f"{name}={self._used(member, name)}"
                if id(member) != id(module) and isinstance(member, types.ModuleType):
                    yield from self._members(member, [n for n in names if n != name])

    def _class(self, kind: type) -> str:
        if not self._own.has(kind.__module__, None):
            return f"library {kind.__module__}.{kind.__qualname__}"
        maker = self.told(type(kind), kind.__name__)
        bases = [self.told(base, base.__name__) for base in kind.__bases__]
        told = [f"{n}={self.told(v, n)}" for n, v in members(kind).items()]
        if issubclass(kind, Enum):
            told += [f"{n}={self.told(v, n)}" for n, v in kind.__members__.items()]
        return f"class {kind.__qualname__} {maker} {listed(bases)} {listed(told)}"

    def _built_in(self, value: Any, name: str) -> str:
        """A built-in, and what it is bound to: `re.compile("x").match`, `{1: 2}.get`."""
        of = value.__self__
        bound = "" if isinstance(of, types.ModuleType) else self.told(of, name)
        return f"builtin {getattr(value, '__module__', None)}.{value.__qualname__} {bound}"

    def _instance(self, value: Any, name: str) -> str:
        kind = type(value)
        package = (kind.__module__ or "").split(".")[0]
        if f"{kind.__module__}.{kind.__qualname__}".startswith(_VALUES):
            return f"{self.told(kind, name)} {self.told(value.__reduce__(), name)}"
        own = package not in _WITHOUT_CONTENT and self._own.has(kind.__module__, None)
        if not own and kind.__module__.startswith("pyspark.sql.types") and hasattr(value, "json"):
            return f"type {value.json()}"
        told = self.told(kind, name)
        consists = parts(value, own=own)
        if not own and not consists.known and hasattr(value, "__wrapped__"):
            if package != "functools":
                # Python's own add a cache; what another wrapper adds is unknown.
                self.unseen.append(name)
            return f"{told} {self.told(value.__wrapped__, name)}"
        if not consists.known and package not in _WITHOUT_CONTENT:
            self.unseen.append(name)
        if consists.attributes:
            told += f" {self.told(dict(consists.attributes), name)}"
        return f"{told} {self.told(consists.held, name)}"


def _content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return None
