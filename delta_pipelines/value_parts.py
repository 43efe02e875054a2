"""What a value consists of besides its type: its attributes, and what it holds.

Nothing of a user's is called: a subclass is read with the methods of its built-in base.
"""

import collections
import datetime
import decimal
import functools
import operator
import os
import re
import string
import types
import uuid
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePath
from typing import Any

PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...))
BOOKKEEPING = frozenset(
    {
        *("__module__", "__name__", "__qualname__", "__dict__", "__weakref__", "__doc__"),
        *("__firstlineno__", "__static_attributes__", "__slotnames__", "__abstractmethods__"),
        *("__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__"),
        *("__orig_bases__", "__orig_class__", "__parameters__", "__type_params__", "_abc_impl"),
    }
)
"""Attributes that decide nothing by themselves, of classes and of what copies a function's."""
_ENUM_TABLES = frozenset(
    {
        *("_value2member_map_", "_hashable_values_", "_unhashable_values_"),
        *("_unhashable_values_map_", "_inverted_", "_sort_order_", "__objclass__"),
        *("_name_", "_value_"),
    }
)
"""Derived from the members; those of a flag grow with the combinations that were used."""
_TOLD_BY_REPR = (
    *(datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo),
    *(decimal.Decimal, uuid.UUID, PurePath, range),
)
_LIVE = (type(os.environ), weakref.WeakKeyDictionary, weakref.WeakValueDictionary)
"""Their content is that of the process, not of the code."""
_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+")
_TUPLE_FIELD = type(vars(collections.namedtuple("_Any", "field"))["field"])
_DESCRIPTORS = (types.MemberDescriptorType, types.GetSetDescriptorType, _TUPLE_FIELD)
_BY_ATTRIBUTES = (
    *(functools.cached_property, functools.partialmethod, functools.singledispatchmethod),
    *(types.SimpleNamespace, string.Template, collections.UserList, collections.UserString),
)
_BY_ATTRIBUTES_IN = ("attr", "dataclasses")

_HELD: tuple[tuple[Any, Callable[[Any], object]], ...] = (
    (Enum, lambda v: (v._name_, v._value_)),
    ((staticmethod, classmethod), lambda v: (v.__func__,)),
    ((property, types.DynamicClassAttribute), lambda v: (v.fget, v.fset, v.fdel)),
    (functools.partial, lambda v: (v.func, v.args, v.keywords)),
    (types.MethodType, lambda v: (v.__func__, v.__self__)),
    (
        (operator.itemgetter, operator.attrgetter, operator.methodcaller),
        lambda v: v.__reduce__(),
    ),
    (re.Pattern, lambda v: (v.pattern, v.flags)),
    (BaseException, lambda v: (v.args,)),
    (slice, lambda v: (v.start, v.stop, v.step)),
    (collections.deque, lambda v: (v.maxlen, list(collections.deque.__iter__(v)))),
    (collections.defaultdict, lambda v: (v.default_factory, dict(dict.items(v)))),
    (collections.OrderedDict, lambda v: (dict(collections.OrderedDict.items(v)),)),
    (dict, lambda v: (dict(dict.items(v)),)),
    (list, lambda v: (list(list.__iter__(v)),)),
    (tuple, lambda v: (tuple(tuple.__iter__(v)),)),
    (set, lambda v: (set(set.__iter__(v)),)),
    (frozenset, lambda v: (frozenset(frozenset.__iter__(v)),)),
    *((base, base.__repr__) for base in (int, float, complex, str, bytes, bytearray)),
)


@dataclass(frozen=True)
class Parts:
    """What a value consists of.

    Args:
        attributes: Its own, by name.
        held: What it holds; None when it holds nothing that can be told.
        known: False when it may consist of more.
    """

    attributes: Mapping[str, object]
    held: object = None
    known: bool = True


def parts(value: Any, *, own: bool) -> Parts:
    """Take a value apart.

    Args:
        value: Anything but functions, modules and classes.
        own: True when its class is the user's; the attributes of a library's objects count only
            where they are all that there is.

    Example:
        >>> parts(types.SimpleNamespace(a=1), own=False)
        Parts(attributes={'a': 1}, held=None, known=True)
        >>> parts(range(3), own=False).held
        'range(0, 3)'
    """
    kind = type(value)
    held = _held(value, own=own)
    package = (kind.__module__ or "").split(".")[0]
    all_told = kind in _BY_ATTRIBUTES or package in _BY_ATTRIBUTES_IN
    # Spark's Row and a library's exception keep something beside what they hold.
    attributes = _attributes(value) if own or all_told or held is not None else {}
    return Parts(attributes, held, held is not None or all_told or (own and not _is_of_c(kind)))


def is_descriptor(value: object) -> bool:
    """True for what only says where instances keep an attribute."""
    return isinstance(value, _DESCRIPTORS)


def members(kind: type) -> dict[str, object]:
    """What a class defines, in its order."""
    left_out = BOOKKEEPING
    if issubclass(kind, Enum):
        left_out = left_out | _ENUM_TABLES | kind.__members__.keys()
    return {n: v for n, v in vars(kind).items() if n not in left_out and not is_descriptor(v)}


def _attributes(value: Any) -> dict[str, object]:
    kind = type(value)
    left_out = BOOKKEEPING
    if isinstance(value, Enum):
        left_out = left_out | _ENUM_TABLES
    found: dict[str, object] = {}
    for base in kind.__mro__:
        for name, member in vars(base).items():
            if isinstance(member, functools.cached_property):
                # It is there once it was asked for; its function says all about it.
                left_out = left_out | {name}
            elif "__slots__" not in vars(base) or name in found:
                # Members of compiled classes may be addresses.
                continue
            elif isinstance(member, types.MemberDescriptorType):
                try:
                    found[name] = member.__get__(value, kind)
                except AttributeError:
                    continue
    found |= getattr(value, "__dict__", {})
    return {name: attribute for name, attribute in found.items() if name not in left_out}


def _held(value: Any, *, own: bool) -> object:
    for base, taken in _HELD:
        if isinstance(value, base):
            return taken(value)
    if isinstance(value, (datetime.datetime, datetime.time)) and value.tzinfo is not None:
        return repr(value.replace(tzinfo=None)), value.tzinfo
    if isinstance(value, _TOLD_BY_REPR) and not (own and isinstance(value, datetime.tzinfo)):
        text = repr(value)
        return None if _ADDRESS.search(text) else text
    if isinstance(value, Mapping) and not own and not isinstance(value, _LIVE):
        return dict(value.items())
    return None


def _is_of_c(kind: type) -> bool:
    """True when a library's compiled base may hold what no attribute shows."""
    immutable = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE
    harmless = (object, datetime.tzinfo)
    return any(base.__flags__ & immutable for base in kind.__mro__ if base not in harmless)
