"""What a dataset's rows depend on, as a value that every commit keeps in its user metadata."""

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
"""Of the recorded value and of how its hashes are made; another one is not comparable, so the
dataset is refreshed once."""


@dataclass(frozen=True)
class Dependencies:
    """Equal dependencies give equal rows.

    Args:
        definition: `definition_hash` of the dataset.
        plan: Hash of its analysed plan, which shows what its function made of the outside world.
        engine: Versions of Spark and Delta.
        tables: The tables it reads, through views -> their rows.
        views: The views between it and those tables -> `definition_hash`.
        files: Root paths of other files -> hash of their listing.
        functions: Python functions that run on its rows -> hash of what Spark ships of them.
        modules: Hash of the author's code that such functions may use; empty without them.
        libraries: Hash of the versions of Python and of what is installed; empty without them.
        settings: Settings of the session that can change rows.
        without_version: What else it depends on, each as the end of a sentence: nothing says
            whether that changed.
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
        """As plain values, ready for JSON."""
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_dict(cls, recorded: object) -> "Dependencies | None":
        """Read what `to_dict` gave; None when it is anything else."""
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
        ours: True when this pipeline made it for this dataset.
        dependencies: What its rows depended on; None when it does not say.
    """

    version: int
    ours: bool
    dependencies: Dependencies | None = None

    @classmethod
    def of(
        cls, version: int, user_metadata: str | None, *, pipeline: str, dataset: str
    ) -> "LastWrite":
        """Read a commit's user metadata.

        Args:
            version: The commit.
            user_metadata: What its writer left.
            pipeline: The pipeline that asks.
            dataset: Qualified name of the dataset.
        """
        said = json_object(user_metadata)
        if said is None:
            return cls(version, ours=False)
        writer = str(said.get("dataset")).removeprefix(f"{SESSION_CATALOG}.")
        same = writer == dataset.removeprefix(f"{SESSION_CATALOG}.")
        ours = said.get("pipeline") == pipeline and same
        return cls(version, ours, Dependencies.from_dict(said.get("dependencies")))
