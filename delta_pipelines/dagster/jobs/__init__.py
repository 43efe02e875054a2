"""Jobs and schedules: refresh, plan, maintenance."""
