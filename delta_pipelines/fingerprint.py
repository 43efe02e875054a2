"""A hash of a dataset's definition: it changes when the rows it would compute may change."""

import ast
import hashlib
import inspect
import json
import textwrap
from collections.abc import Callable
from functools import partial
from types import CodeType

from delta_pipelines.declarations import Batch, Declaration, Input, Query
from delta_pipelines.redaction import is_sensitive


def definition_hash(declaration: Declaration) -> str:
    """Hash everything in a declaration that decides rows, schema or layout.

    Owners, tags, groups and the drift policy are left out: they decide no rows in the table.

    Args:
        declaration: The dataset.

    Returns:
        16 hexadecimal digits.
    """
    upsert = declaration.upsert
    parts = {
        "kind": declaration.kind,
        "query": _query_text(declaration.query),
        "inputs": {key: _input_text(bound) for key, bound in declaration.inputs.items()},
        "layout": [declaration.partition_cols, declaration.cluster_by],
        "properties": dict(declaration.table_properties),
        "comment": declaration.comment,
        # A rotated password is no new definition, and its hash would stand in every commit.
        "spark_conf": {k: v for k, v in declaration.spark_conf.items() if not is_sensitive(k)},
        "upsert": [upsert.keys, upsert.sequence_by, upsert.deletes_when] if upsert else None,
    }
    text = json.dumps(parts, sort_keys=True, default=list)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _input_text(bound: str | Input) -> str:
    if isinstance(bound, str):
        return bound
    return bound.name if isinstance(bound, Batch) else repr(bound)


def _query_text(query: Query | None) -> str | None:
    if query is None:
        return None
    return query.sql if query.function is None else _function_text(query.function)


def _function_text(function: Callable[..., object]) -> str:
    if isinstance(function, partial):
        return f"{_function_text(function.func)} {function.args!r} {function.keywords!r}"
    if not inspect.isroutine(function):
        return _function_text(type(function).__call__)
    try:
        return _undecorated(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        return function.__qualname__ if code is None else _code_text(code)


def _undecorated(source: str) -> str:
    """A function's source without its decorators, which say the rest of the declaration."""
    try:
        function = ast.parse(source).body[0]
    except SyntaxError:
        return source
    if not isinstance(function, ast.FunctionDef):
        return source
    function.decorator_list = []
    return ast.unparse(function)


def _code_text(code: CodeType) -> str:
    """What compiled code does; the same in every process, so without addresses."""
    return f"{code.co_code.hex()} {[_constant(c) for c in code.co_consts]} {code.co_names}"


def _constant(constant: object) -> str:
    if isinstance(constant, CodeType):
        return _code_text(constant)
    if isinstance(constant, frozenset):
        return repr(sorted(map(repr, constant)))
    return repr(constant)
