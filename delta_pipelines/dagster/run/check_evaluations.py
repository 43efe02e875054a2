"""Evaluations of expectations, each with the run that made it: kept with the materialization.

A refresh that finds nothing to do looks at no row. Dagster shows of a check only what the newest
run said, and of an asset only the metadata of its newest materialization; so what was last found is
repeated from there, for one look-up per asset, whatever checks the runs between had selected.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import dagster as dg

from delta_pipelines.model.expectation_result import ExpectationResult
from delta_pipelines.model.results import DatasetResult

EVALUATIONS = "delta_pipelines/expectations"
"""Metadata of a materialization: what its table's rows were found to be."""


@dataclass(frozen=True)
class Evaluation:
    """What a run found of one expectation.

    Args:
        found: The counts.
        run_id: The Dagster run that looked at the rows.
        version: The table's Delta version after it; None when it was refused.
    """

    found: ExpectationResult
    run_id: str
    version: int | None = None


def evaluations_of(result: DatasetResult, run_id: str) -> dict[str, Evaluation]:
    """What a run found itself, by the expectation's name.

    Args:
        result: The dataset's.
        run_id: The Dagster run.
    """
    version = result.version if result.succeeded else None
    return {found.name: Evaluation(found, run_id, version) for found in result.expectations}


def evaluations_metadata(
    evaluations: Iterable[Evaluation],
) -> dict[str, dg.JsonMetadataValue]:
    """The metadata entry that `read_evaluations` reads; none when there is nothing to tell."""
    entries = [
        {**asdict(evaluation.found), "run": evaluation.run_id, "version": evaluation.version}
        for evaluation in evaluations
    ]
    return {EVALUATIONS: dg.MetadataValue.json(entries)} if entries else {}


def read_evaluations(
    metadata: Mapping[str, dg.MetadataValue[Any]], conditions: Mapping[str, str]
) -> dict[str, Evaluation]:
    """What a materialization tells of the expectations that are still declared as they were.

    Args:
        metadata: The materialization's.
        conditions: Name -> condition of what is declared now, as it is told.
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
