"""A hash of the parts of a declaration that determine a dataset's rows, schema and layout."""

import hashlib
import json
from dataclasses import astuple

from delta_pipelines.model.declarations import Batch, Declaration, Input
from delta_pipelines.security.redaction import is_sensitive


def definition_hash(declaration: Declaration) -> str:
    """Hash the parts of a declaration that determine rows, schema or layout.

    The body of the dataset's function is not included: Spark's plan of its query is compared
    separately. Owners, tags, groups, the drift policy and `deterministic` are not included
    either: they do not change the table's rows. For a table with partitions, comments, properties
    and constraints are not included, so that a change of them computes no partition again.

    Returns:
        16 hexadecimal digits.
    """
    upsert = declaration.upsert
    parts = {
        "kind": declaration.kind,
        "query": declaration.query.sql if declaration.query else None,
        "inputs": {key: _input_text(bound) for key, bound in declaration.inputs.items()},
        "layout": [declaration.partition_cols, declaration.cluster_by],
        "properties": dict(declaration.table_properties),
        "comment": declaration.comment,
        # A new password is not a new definition, and its hash would be part of every commit.
        "spark_conf": {k: v for k, v in declaration.spark_conf.items() if not is_sensitive(k)},
        "expectations": [astuple(expectation) for expectation in declaration.expectations],
        "upsert": [upsert.keys, upsert.sequence_by, upsert.deletes_when] if upsert else None,
    }
    rules = {
        "columns": _columns_text(declaration),
        "column_comments": dict(declaration.column_comments),
        "constraints": dict(declaration.constraints),
    }
    if declaration.partitions is not None:
        # A partition's rows stay as they are when only these change.
        for name in ("layout", "properties", "comment"):
            parts.pop(name)
        rules = {"columns": rules["columns"], "partitions": declaration.partitions.text}
    # Only what is declared: the hashes of other tables stay as they were.
    parts |= {name: rule for name, rule in rules.items() if rule}
    text = json.dumps(parts, sort_keys=True, default=list)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _columns_text(declaration: Declaration) -> str | None:
    columns = declaration.columns
    return columns if columns is None or isinstance(columns, str) else columns.json()


def _input_text(bound: str | Input) -> str:
    if isinstance(bound, str):
        return bound
    return bound.name if isinstance(bound, Batch) else repr(bound)
