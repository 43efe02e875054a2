"""A plan for the terminal: the lines of `str(plan)`, coloured like a diff."""

import re

from rich.text import Text

from delta_pipelines.planning.plan import Plan, render_plan

_STYLES = {"+": "green", "~": "yellow", "!": "bold magenta", "x": "bold red"}
_CHANGED = re.compile("    (column|property|constraint) ")


def plan_text(plan: Plan, *, details: bool = False) -> Text:
    """Colour a plan's lines by their signs.

    Args:
        details: True to show everything of every dataset, however many there are.
    """
    text = Text()
    for line in plan.redaction.text(render_plan(plan, details=details)).splitlines():
        sign = _CHANGED.sub("", line, count=1)[:1]
        style = _STYLES.get(sign, "") if not line.startswith("Plan ") else "bold"
        if line.strip().startswith(("note:", "reads ")):
            style = "dim"
        if line.startswith("error: "):
            style = "bold red"
        text.append(f"{line}\n", style=style)
    return text


def strict_refusal(plan: Plan) -> str:
    """Explain why a strict run does nothing; empty when the plan has no errors."""
    if not plan.errors:
        return ""
    count = len(plan.errors)
    datasets = "1 dataset" if count == 1 else f"{count} datasets"
    return f"--strict: nothing is run, because {datasets} cannot be planned."
