"""A merge's transaction asks Delta's helper for deletion vectors as seldom as can be."""

from unittest.mock import MagicMock

from delta_pipelines.delta.merge.candidate_files import Files
from delta_pipelines.delta.merge.transaction import MergeTransaction


def test_candidates_are_resolved_by_path_once_however_often_files_are_looked_up() -> None:
    jvm = MagicMock()
    transaction = MergeTransaction(jvm, MagicMock())
    helper = jvm.object.return_value
    candidates, others = Files(MagicMock()), Files(MagicMock())
    for _ in range(3):
        transaction.files.touched(candidates, ["a", "b"])
    assert helper.generateCandidateFileMap.call_count == 1
    transaction.files.touched(others, ["a"])
    assert helper.generateCandidateFileMap.call_count == 2
