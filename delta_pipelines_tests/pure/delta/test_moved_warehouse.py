"""Whether a warehouse stands where its catalog was made."""

from pathlib import Path

from delta_pipelines.delta.startup.moved_warehouse import is_one_folder


def test_a_moved_warehouse_is_another_folder_and_a_linked_one_the_same(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    assert is_one_folder(str(before), str(before))
    before.rename(after)
    assert not is_one_folder(str(before), str(after))
    before.symlink_to(after)
    assert is_one_folder(str(before), str(after))
    before.unlink()
    before.mkdir()
    assert not is_one_folder(str(before), str(after))
