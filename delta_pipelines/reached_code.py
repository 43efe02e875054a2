"""The user's own code that a function reaches, as text that is the same in every process.

Code is told by what runs, its compiled form, and never by its source file: a file that was edited
under a running process says what the next process will do, not what this one did.
"""

import logging
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, MutableSequence, MutableSet
from contextlib import _GeneratorContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Any

from delta_pipelines.body_imports import imported_code
from delta_pipelines.code_text import code_text, listed, names_filled, names_stored, names_used
from delta_pipelines.module_uses import UNKNOWABLE, UsedModules, is_look_up, names_looked_up
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
_FILLED = (MutableMapping, MutableSequence, MutableSet)
"""What a decorator may remember calls in."""
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
    Of a module count the members that the code uses; of one that is passed on those that any of the
    reached code names, and all where that code looks names up at run time (`getattr`). Installed
    libraries count by name only, their decorators with what they were given as well. Nothing is
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
        text = listed((reader.told(function, name), *reader.modules()))
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
        self._names: set[str] = set()
        """Used by any function that was told."""
        self._looks_up = False
        """Some of the code finds names at run time."""
        self._modules = UsedModules(own)
        self.unseen: list[str] = []

    def modules(self) -> Iterator[str]:
        """What the told code uses of its author's modules: `landing.FOLDER`.

        At the end and of all code at once: a module that is passed on, or stands in a list, is used
        where nothing names it.
        """
        while asked := self._modules.next(self._names, everything=self._looks_up):
            for module, name in asked:
                told = self.told(vars(module)[name], name)
                yield f"{module.__name__}.{name}={told}"

    def told(self, value: Any, name: str) -> str:
        if isinstance(value, types.ModuleType):
            self._modules.passed_on(value)
            return f"module {value.__name__}"
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
        if is_look_up(value):
            self._looks_up = True
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
        code, module = function.__code__, function.__module__
        # A library's decorator takes the module's name from what it decorates.
        written_in = function.__globals__.get("__name__") or module
        if not self._own.has(written_in, code.co_filename):
            return self._of_library(function)
        names = dict.fromkeys(names_used(code))
        self._names.update(names)
        self._looks_up = self._looks_up or any(map(is_look_up, names))
        told = [code_text(code, function.__doc__)]
        told += [f"{n}={self.told(value, n)}" for n, value in _closure(function)]
        told.append(self.told(function.__defaults__, "defaults"))
        told.append(self.told(function.__kwdefaults__, "defaults"))
        attributes = {n: v for n, v in vars(function).items() if n not in BOOKKEEPING}
        told += [f".{n}={self.told(v, n)}" for n, v in attributes.items()]
        told += self._globals(code, names, function.__globals__)
        return f"function {listed(told)}"

    def _of_library(self, function: types.FunctionType) -> str:
        """A library's function: by its name; a decorator's with what it was given.

        What it counts and remembers of calls is no code.
        """
        kept, code = dict(_closure(function)), function.__code__
        wrapped = getattr(function, "__wrapped__", None)
        decorates = wrapped is not None and self._own.has(function.__module__, None)
        if not decorates and not any(map(self._is_own_function, kept.values())):
            return f"library {function.__module__}.{function.__qualname__}"
        stored, filled = names_stored(code), names_filled(code)
        told = [self.told(wrapped, code.co_name)]
        for n, value in kept.items():
            if n not in stored and not (n in filled and isinstance(value, _FILLED)):
                told.append(f"{n}={self._given(value, n)}")
        for n, value in vars(function).items():
            if isinstance(value, types.MappingProxyType) or self._is_own_function(value):
                told.append(f".{n}={self.told(value, n)}")
        # Of several such functions in one library the name of the outer one tells which it is.
        which = getattr(code, "co_qualname", code.co_name)
        return f"library's {function.__globals__.get('__name__')}.{which} {listed(told)}"

    def _given(self, value: Any, name: str) -> str:
        if isinstance(value, _GeneratorContextManager):
            return self.told((value.func, value.args, value.kwds), name)
        return self.told(value, name)

    def _is_own_function(self, value: object) -> bool:
        if not isinstance(value, (types.FunctionType, type)):
            return False
        code = getattr(value, "__code__", None)
        return self._own.has(value.__module__, code and code.co_filename)

    def _globals(
        self, code: types.CodeType, names: Iterable[str], scope: Mapping[str, Any]
    ) -> Iterator[str]:
        modules = set()
        for name in names:
            if isinstance(scope.get(name), types.ModuleType) and self._own.has_module(scope[name]):
                modules.add(name)
                yield f"{name}=module {scope[name].__name__}"
            elif name in scope:
                yield f"{name}={self.told(scope[name], name)}"
        if modules or not UNKNOWABLE.isdisjoint(names):
            for name, attributes in names_looked_up(code):
                if name in modules:
                    yield from self._modules.asked(scope[name], attributes)
                elif name in UNKNOWABLE and name not in scope:
                    self.unseen.append(f"{name}()")
        if "import_module" in names:
            self.unseen.append("import_module()")
        for path, imported in imported_code(code, str(scope.get("__package__") or ""), self._own):
            self._names.update(names_used(imported))
            yield f"{path.stem}={code_text(imported)}"

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


def _closure(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """The free variables of a function; None where it has been told before they are set."""
    cells = function.__closure__ or ()
    for name, cell in zip(function.__code__.co_freevars, cells, strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:
            yield name, None
