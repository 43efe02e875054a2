"""A hash of a dataset's definition: it changes when the rows it would compute may change."""

import hashlib
import json
from dataclasses import astuple

from delta_pipelines.declarations import Batch, Declaration, Input, Query
from delta_pipelines.reached_code import reached_code
from delta_pipelines.redaction import is_sensitive


def definition_hash(declaration: Declaration) -> str:
    """Hash everything in a declaration that decides rows, schema or layout.

    Owners, tags, groups and the drift policy are left out: they decide no rows in the table. A
    function counts with all of the user's own code that it reaches (see `reached_code`).

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
        "expectations": [astuple(expectation) for expectation in declaration.expectations],
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
    return query.sql if query.function is None else reached_code(query.function).text
