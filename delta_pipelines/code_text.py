"""Compiled code as text that is the same in every process, and changes with what the code does."""

import dis
import inspect
from collections.abc import Iterable, Iterator
from types import CodeType

_FLAGS = (
    *(inspect.CO_VARARGS, inspect.CO_VARKEYWORDS, inspect.CO_GENERATOR, inspect.CO_COROUTINE),
    *(inspect.CO_ASYNC_GENERATOR, inspect.CO_ITERABLE_COROUTINE),
)
"""The others follow from the rest, or tell of its place, its docstring and its annotations."""
_KEPT_FLAGS = sum(_FLAGS)
_LOADS = frozenset(dis.hasconst)
_FILLING = frozenset(
    {
        *("add", "append", "appendleft", "clear", "discard", "extend", "insert", "move_to_end"),
        *("pop", "popitem", "popleft", "remove", "setdefault", "update", "__setitem__"),
    }
)
"""Methods that change what a collection holds."""


def code_text(code: CodeType, doc: str | None = None) -> str:
    """What compiled code does; without addresses, line numbers and a docstring.

    Names of variables count: they decide what keyword arguments, `locals()` and a dataframe's
    `query("a > @limit")` find.

    Args:
        code: Of a function, a module or anything else that was compiled.
        doc: The function's docstring.
    """
    constants = list(map(_constant, code.co_consts))
    if doc is not None and constants and code.co_consts[0] == doc and not _loads_first(code):
        constants[0] = ""
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
    names = (code.co_names, code.co_varnames, code.co_cellvars, code.co_freevars)
    # Python 3.10 keeps its handlers of exceptions among the instructions.
    handlers = getattr(code, "co_exceptiontable", b"").hex()
    shape = f"{counts} {code.co_flags & _KEPT_FLAGS} {handlers}"
    return f"{code.co_code.hex()} {shape} {listed(constants)} {names}"


def listed(texts: Iterable[str]) -> str:
    """Texts in a row. Their `repr` would double every backslash at every level of nesting."""
    return f"[{', '.join(texts)}]"


def names_used(code: CodeType) -> Iterator[str]:
    """Names that code, or a function inside of it, may look up in its module."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_used(constant)


def names_stored(code: CodeType) -> set[str]:
    """Variables that code, or a function inside of it, sets around itself when it runs."""
    steps = dis.get_instructions(code)
    stored = {step.argval for step in steps if step.opname in ("STORE_DEREF", "DELETE_DEREF")}
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return stored.union(*map(names_stored, inner))


def names_filled(code: CodeType) -> set[str]:
    """Variables around it that code, or a function inside of it, may put something into."""
    found: set[str] = set()
    writes = not _FILLING.isdisjoint(code.co_names)
    for step in dis.get_instructions(code):
        writes = writes or step.opname in ("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE")
    if writes:
        found.update(code.co_freevars)
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return found.union(*map(names_filled, inner))


def _constant(constant: object) -> str:
    if isinstance(constant, CodeType):
        return code_text(constant)
    if isinstance(constant, frozenset):
        return f"set {listed(sorted(map(repr, constant)))}"
    if isinstance(constant, tuple):
        return listed(map(_constant, constant))
    return repr(constant)


def _loads_first(code: CodeType) -> bool:
    """Say whether a docstring is a constant of the body too: `"x"; return "x"`."""
    steps = zip(code.co_code[::2], code.co_code[1::2], strict=True)
    return any(step in _LOADS and operand == 0 for step, operand in steps)
