"""How many examples Hypothesis draws: as many as a test states, and many more in ``make laws``."""

from hypothesis import HealthCheck, settings

#: The examples of ``make laws`` for each one of ``make test``, unless a test states both.
MANY = 20
#: The profiles: the same examples in every run, or random ones.
SAME, RANDOM = "same", "random"

# How long an example takes is a property of the machine, which may be busy.
_BUSY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(SAME, _BUSY, derandomize=True)
settings.register_profile(RANDOM, _BUSY, max_examples=100 * MANY, print_blob=True)


def examples(count: int, many: int | None = None) -> int:
    """The number of examples of a test that draws ``count`` in ``make test``, and ``many`` in ``make laws``."""
    if settings.get_current_profile_name() != RANDOM:
        return count
    return count * MANY if many is None else many
