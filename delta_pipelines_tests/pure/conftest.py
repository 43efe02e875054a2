"""Property-based tests on a machine that may be busy: no example has a deadline."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "pure", max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("pure")
