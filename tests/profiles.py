"""The profile of hypothesis that a run was started with."""

from hypothesis import settings

IS_DEEP = settings.default is not None and settings.default.max_examples > 100
"""Whether it is `make nightly`'s, with many more examples than CI has time for."""
