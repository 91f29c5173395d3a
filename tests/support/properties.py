"""How far Hypothesis looks: few examples of each property by default, many in `make test-long`."""

from __future__ import annotations

from hypothesis import settings

# A run's length is set by its count of examples, never by a clock.
settings.register_profile("few", max_examples=15, deadline=None)
settings.register_profile("many", max_examples=100, deadline=None)
settings.load_profile("few")
