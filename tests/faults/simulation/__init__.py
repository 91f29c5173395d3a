"""A log that fails on purpose, on a clock that nobody waits for: a seed makes a run, every time."""
