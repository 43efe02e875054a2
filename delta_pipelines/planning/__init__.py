"""From declarations and tables to a plan: what a run does, and why."""
