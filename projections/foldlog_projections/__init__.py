"""One pure fold per view: `initial() -> state` and `apply(state, envelope) -> state`.

No I/O, no clock, no asyncio. A module here *is* a projection: it has a `name`, a `version` and the
two functions. `FAMILIES` in `registry` says which projection folds which subjects.
"""
