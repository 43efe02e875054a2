"""The owner of a table or view, and the properties that its declaration set.

A property that is removed from the declaration is removed from the table; a property that was set
on the table itself stays. So the table stores the list of declared keys.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from delta_pipelines.errors import DatasetError
from delta_pipelines.model.checkpoints import CHECKPOINTS_KEY, EPOCH_KEY, REPLACED_KEY
from delta_pipelines.model.constraints import CONSTRAINT
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.stored_values import (
    MalformedValueError,
    stored_json,
    stored_list,
    stored_text,
)
from delta_pipelines.model.table_definition import is_protocol
from delta_pipelines.security.redaction import REDACTED, is_sensitive

log = logging.getLogger(__name__)

PIPELINE_KEY = "delta_pipelines.pipeline"
OWNED_KEY = "delta_pipelines.owned"
KIND_KEY = "delta_pipelines.kind"
"""The kind of dataset that filled the table: each kind treats existing rows differently."""
PARTITIONS_KEY = "delta_pipelines.partitions"
"""What divides the rows of the table into partitions."""
_BOOKKEEPING = (
    *(PIPELINE_KEY, OWNED_KEY, KIND_KEY, PARTITIONS_KEY, CHECKPOINTS_KEY, REPLACED_KEY, EPOCH_KEY),
)
COMMENT = "comment"
"""An entry of the owned keys: the declaration set the table's comment."""


@dataclass(frozen=True)
class PropertyChange:
    """A table property to set, change or remove.

    Args:
        key: The property.
        current: Its value now, None when it is not set.
        target: Its value afterwards, None when it is removed.
    """

    key: str
    current: str | None
    target: str | None

    def __str__(self) -> str:
        before, after = self.shown
        if before is None:
            return f"+ {self.key} = {after}"
        if after is None:
            return f"- {self.key} = {before}"
        return f"~ {self.key}: {before} -> {after}"

    @property
    def line(self) -> str:
        """The change as a line of a plan."""
        if not self.key.startswith(CONSTRAINT):
            return f"property {self}"
        return f"constraint {replace(self, key=self.key.removeprefix(CONSTRAINT))}"

    @property
    def shown(self) -> tuple[str | None, str | None]:
        """(current, target), redacted when the property may be a credential."""
        if not is_sensitive(self.key):
            return self.current, self.target
        return self.current and REDACTED, self.target and REDACTED


def owner(properties: Mapping[str, str]) -> str | None:
    """The pipeline that owns a table or view, None when no pipeline does."""
    return properties.get(PIPELINE_KEY)


def check_owner(
    what: Literal["table", "view"],
    identifier: Identifier,
    properties: Mapping[str, str],
    *,
    pipeline: str,
    dataset: str,
) -> None:
    """Refuse to write a table or view of another pipeline: each would overwrite the other's work.

    Args:
        what: `table` or `view`.
        pipeline: Name of the pipeline that plans to write it.

    Raises:
        DatasetError: It belongs to another pipeline.
    """
    owned_by = owner(properties)
    if owned_by is not None and owned_by != pipeline:
        streams = (
            f"; first set this pipeline's `storage` to where {owned_by!r} keeps its checkpoints"
            if CHECKPOINTS_KEY in properties
            else ""
        )
        raise DatasetError(
            f"{what} {identifier} belongs to pipeline {owned_by!r}. Rename the dataset, or, when "
            f"this pipeline takes its place, hand the {what} over with ALTER {what.upper()} "
            f"{identifier} SET TBLPROPERTIES ('{PIPELINE_KEY}' = '{pipeline}'){streams}.",
            dataset=dataset,
        )


def adoption(what: Literal["table", "view"]) -> str:
    """The note of a plan that takes over a table or view without an owner."""
    return f"the {what} was not created by a pipeline; this pipeline takes it over"


def owned_keys(properties: Mapping[str, str]) -> frozenset[str]:
    """Keys that an earlier declaration set on the table."""
    try:
        return frozenset(stored_list(stored_json(properties.get(OWNED_KEY, "[]")), stored_text))
    except MalformedValueError as error:
        log.warning("Table property %r is ignored: %s.", OWNED_KEY, error)
        return frozenset()


def undeclared_properties(current: Mapping[str, str]) -> dict[str, str]:
    """The properties that were set on the table itself, not by a declaration.

    Example:
        >>> undeclared_properties({"a": "1", "b": "2", OWNED_KEY: '["b"]'})
        {'a': '1'}
    """
    declared = owned_keys(current)
    return {k: v for k, v in current.items() if k not in declared and k not in _BOOKKEEPING}


def target_properties(
    current: Mapping[str, str], declared: Mapping[str, str], *, pipeline: str, owns_comment: bool
) -> dict[str, str]:
    """The wanted properties of a table.

    Delta turns a pseudo property such as `delta.feature.*` into a protocol and then hides it. So
    it is included only until one of our commits has set it; else every refresh would change it.

    Args:
        current: The table's properties; empty for a new table.
        declared: The declaration's properties.
        pipeline: Name of the pipeline that owns the table.
        owns_comment: True when the declaration sets the table's comment.

    Example:
        >>> was = {"a": "1", "b": "2", OWNED_KEY: '["a"]'}
        >>> now = target_properties(was, {"c": "3"}, pipeline="p", owns_comment=False)
        >>> sorted(now)
        ['b', 'c', 'delta_pipelines.owned', 'delta_pipelines.pipeline']
    """
    before = owned_keys(current)
    removed = before - set(declared)
    kept = {key: value for key, value in current.items() if key not in removed}
    entries = {key: _entry(key, value) for key, value in declared.items()}
    wanted = {
        key: value
        for key, value in declared.items()
        if not (is_protocol(key) and entries[key] in before)
    }
    owned = sorted(entries.values()) + ([COMMENT] if owns_comment else [])
    return {**kept, **wanted, PIPELINE_KEY: pipeline, OWNED_KEY: json.dumps(owned)}


def _entry(key: str, value: str) -> str:
    """The entry of a declared property: its name, plus the value when Delta hides the property."""
    return f"{key}={value}" if is_protocol(key) else key


def target_comment(
    current: Mapping[str, str], current_comment: str | None, declared: str | None
) -> str | None:
    """The wanted comment of a table: the declared one, or one that was set on the table itself."""
    if declared is not None:
        return declared or None  # Delta drops an empty comment: every refresh would change it
    return None if COMMENT in owned_keys(current) else current_comment


def property_changes(
    current: Mapping[str, str], target: Mapping[str, str]
) -> tuple[PropertyChange, ...]:
    """The changes between two sets of properties, without the engine's bookkeeping."""
    keys = [key for key in {**current, **target} if key not in _BOOKKEEPING]
    return tuple(
        PropertyChange(key, current.get(key), target.get(key))
        for key in sorted(keys)
        if current.get(key) != target.get(key)
    )
