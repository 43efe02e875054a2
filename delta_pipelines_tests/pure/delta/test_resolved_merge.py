"""What is asked of a resolved merge: each question once, for it never changes."""

from unittest.mock import MagicMock

from delta_pipelines.delta.merge.resolved_merge import MergePlan


def scala_map(entries):
    """A stand-in for a Scala `Map`; its entries are fetched one by one."""

    def iterator():
        left = list(entries.items())
        pairs = MagicMock()
        pairs.hasNext = lambda: bool(left)
        pairs.next = lambda: MagicMock(**dict(zip(("_1", "_2"), _calls(left.pop(0)), strict=True)))
        return pairs

    return MagicMock(iterator=MagicMock(side_effect=iterator))


def _calls(pair):
    return [MagicMock(return_value=value) for value in pair]


def scala_seq(*values):
    """A stand-in for a Scala `Seq`."""
    return MagicMock(size=MagicMock(return_value=len(values)), apply=lambda index: values[index])


def plan_of(command):
    jvm = MagicMock()
    jvm.session.sessionState().conf().getConfString.side_effect = lambda name, default: default
    return MergePlan(jvm, command)


def test_the_tables_properties_are_fetched_once() -> None:
    command = MagicMock()
    metadata = command.targetFileIndex.return_value.metadata
    configuration = metadata.return_value.configuration
    configuration.return_value = scala_map(
        {"delta.enableDeletionVectors": "true", "delta.autoOptimize.optimizeWrite": "true"}
    )
    plan = plan_of(command)
    for _ in range(3):
        assert plan.target.settings["delta.enableDeletionVectors"] == "true"
        assert plan.target.writes_deletion_vectors
        assert plan.target.writes_optimized
        assert plan.target.keeps_change_feed
    assert configuration.return_value.iterator.call_count == 1
    assert metadata.call_count == 1


def test_the_columns_of_partitions_are_fetched_once_whatever_number_of_keys_asks() -> None:
    command = MagicMock()
    schema = command.targetFileIndex.return_value.partitionSchema
    fields = [MagicMock(name=name) for name in ("day", "Hub")]
    for field, name in zip(fields, ("day", "Hub"), strict=True):
        field.name.return_value = name
    schema.return_value.toSeq.return_value = scala_seq(*fields)
    plan = plan_of(command)
    names = ("hub", "day", "id")
    assert [plan.target.is_partitioned_by(name) for name in names] == [True, True, False]
    assert schema.call_count == 1


def test_a_merge_with_another_source_asks_for_itself() -> None:
    command = MagicMock()
    command.notMatchedBySourceClauses.return_value.isEmpty.return_value = False
    plan = plan_of(command)
    assert plan.acts_by_source
    plan._jvm.delta.commands.MergeIntoCommand.return_value = other = MagicMock()
    other.notMatchedBySourceClauses.return_value.isEmpty.return_value = True
    changed = plan.with_source(MagicMock())
    assert not changed.acts_by_source
    assert plan.acts_by_source
    assert changed.target is plan.target  # and of the table what is known stays known
