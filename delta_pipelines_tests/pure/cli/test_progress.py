"""The live progress of one run, while others go on in the same process."""

import io
from types import SimpleNamespace

from rich.console import Console

from delta_pipelines.cli.progress import Progress
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.run_steps import Step, reached


def test_steps_of_other_runs_are_passed_over() -> None:
    mine = SimpleNamespace(identifier=Identifier(None, "s", "mine"))
    plan = SimpleNamespace(datasets={"mine": mine})
    console = Console(file=io.StringIO(), width=80)
    with Progress(plan, console) as progress:
        reached(Step.COMMIT, "`s`.`mine`")
        for number in range(3):
            reached(Step.WRITE, f"s.other_{number}")
        console.print(progress._render())
    output = console.file.getvalue()
    assert "committing" in output
    assert "other" not in output
    assert list(progress._steps) == ["s.mine"]
