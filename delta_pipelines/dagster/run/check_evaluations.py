"""Evaluations of expectations with the run that made them, stored with the materialization.

A refresh that finds nothing to do reads no rows. Dagster shows only the newest result of a check
and only the metadata of the newest materialization. So each run copies the last evaluations into
its materialization: one lookup per asset finds them, whatever checks the runs between selected.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import dagster as dg

from delta_pipelines.model.expectation_result import ExpectationResult
from delta_pipelines.model.results import DatasetResult

EVALUATIONS = "delta_pipelines/expectations"
"""Metadata key of the evaluations of a table's rows."""


@dataclass(frozen=True)
class Evaluation:
    """The result of one expectation in one run.

    Args:
        found: The counts.
        run_id: The Dagster run that evaluated the rows.
        version: The table's Delta version after the run; None if the refresh failed.
    """

    found: ExpectationResult
    run_id: str
    version: int | None = None


def evaluations_of(result: DatasetResult, run_id: str) -> dict[str, Evaluation]:
    """The evaluations of this run, by the expectation's name."""
    version = result.version if result.succeeded else None
    return {found.name: Evaluation(found, run_id, version) for found in result.expectations}


def evaluations_metadata(
    evaluations: Iterable[Evaluation],
) -> dict[str, dg.JsonMetadataValue]:
    """The metadata entry that `read_evaluations` reads; empty without evaluations."""
    entries = [
        {**asdict(evaluation.found), "run": evaluation.run_id, "version": evaluation.version}
        for evaluation in evaluations
    ]
    return {EVALUATIONS: dg.MetadataValue.json(entries)} if entries else {}


def read_evaluations(
    metadata: Mapping[str, dg.MetadataValue[Any]], conditions: Mapping[str, str]
) -> dict[str, Evaluation]:
    """Read the evaluations of the expectations that have not changed since a materialization.

    Args:
        metadata: Metadata of the materialization.
        conditions: Name -> redacted condition of the declared expectations.
    """
    entry = metadata.get(EVALUATIONS)
    entries = entry.value if entry is not None else None
    found = {}
    for values in entries if isinstance(entries, list) else ():
        rest = dict(values)
        run_id, version = rest.pop("run"), rest.pop("version")
        result = ExpectationResult(**rest)
        if conditions.get(result.name) == result.condition:
            found[result.name] = Evaluation(result, run_id, version)
    return found
