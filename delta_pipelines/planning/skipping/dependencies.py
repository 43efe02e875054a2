"""A dataset's dependencies, as a value that every commit stores in its user metadata."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from delta_pipelines.model.identifiers import SESSION_CATALOG
from delta_pipelines.model.stored_values import (
    MalformedValueError,
    json_object,
    stored_fields,
    stored_list,
    stored_mapping,
    stored_text,
)
from delta_pipelines.model.table_state import TableVersion

FORMAT = 3
"""Version of the recorded value and of its hashes. Another version is not comparable, so the
dataset is refreshed once."""


@dataclass(frozen=True)
class Dependencies:
    """What a dataset's rows depend on: equal dependencies give equal rows.

    Args:
        definition: `definition_hash` of the dataset.
        plan: Hash of its analysed plan, which shows everything that its function computed.
        engine: Versions of Spark and Delta.
        tables: The tables that it reads, through views -> the version of their rows.
        views: The views between it and those tables -> `definition_hash`.
        files: Root paths of other files -> hash of their listing.
        functions: Python functions that run on its rows -> hash of their pickled code.
        modules: Hash of the author's code that such functions may use; empty without functions.
        libraries: Hash of the versions of Python and of installed packages; empty without
            functions.
        settings: Settings of the session that can change rows.
        without_version: Dependencies without a version, each as a part of a sentence: whether
            they changed is unknown.
    """

    definition: str
    plan: str = ""
    engine: str = ""
    tables: Mapping[str, TableVersion] = field(default_factory=dict)
    views: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    functions: Mapping[str, str] = field(default_factory=dict)
    modules: str = ""
    libraries: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    without_version: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The dependencies as plain values, ready for JSON."""
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_dict(cls, recorded: object) -> "Dependencies | None":
        """Read a result of `to_dict`; None for any other value."""
        if not isinstance(recorded, dict) or recorded.get("format") != FORMAT:
            return None
        values = {key: value for key, value in recorded.items() if key != "format"}

        def texts(value: object) -> dict[str, str]:
            return stored_mapping(value, stored_text)

        known: dict[str, Callable[[Any], Any]] = {
            "definition": stored_text,
            "plan": stored_text,
            "engine": stored_text,
            "tables": lambda tables: stored_mapping(tables, TableVersion.parse),
            "views": texts,
            "files": texts,
            "functions": texts,
            "modules": stored_text,
            "libraries": stored_text,
            "settings": texts,
            "without_version": lambda sentences: stored_list(sentences, stored_text),
        }
        try:
            return cls(**stored_fields(values, known)) if values.keys() == known.keys() else None
        except MalformedValueError:
            return None


@dataclass(frozen=True)
class LastWrite:
    """The commit that last changed a table's rows.

    Args:
        version: Its Delta version.
        ours: True when this pipeline wrote it for this dataset.
        dependencies: What its rows depended on; None when it is not recorded.
        fresh: The partitions that had the rows of these dependencies, as recorded.
        sample: The partition for which the plan of the dependencies was made, if there is one.
    """

    version: int
    ours: bool
    dependencies: Dependencies | None = None
    fresh: tuple[str, ...] = ()
    sample: str | None = None

    @classmethod
    def of(
        cls, version: int, user_metadata: str | None, *, pipeline: str, dataset: str
    ) -> "LastWrite":
        """Read a commit's user metadata.

        Args:
            user_metadata: The writer's text, None when there is none.
        """
        metadata = json_object(user_metadata)
        if metadata is None:
            return cls(version, ours=False)
        written_for = str(metadata.get("dataset")).removeprefix(f"{SESSION_CATALOG}.")
        same = written_for == dataset.removeprefix(f"{SESSION_CATALOG}.")
        ours = metadata.get("pipeline") == pipeline and same
        fresh, sample = _partitions(metadata.get("partitions"))
        recorded = Dependencies.from_dict(metadata.get("dependencies"))
        return cls(version, ours, recorded, fresh, sample)


def _partitions(value: object) -> tuple[tuple[str, ...], str | None]:
    known: dict[str, Callable[[Any], Any]] = {
        "refreshed": lambda keys: stored_list(keys, stored_text),
        "fresh": lambda keys: stored_list(keys, stored_text),
        "sample": lambda key: None if key is None else stored_text(key),
    }
    try:
        fields = stored_fields(value, known)
    except MalformedValueError:
        return (), None
    return tuple(fields.get("fresh", ())), fields.get("sample")
