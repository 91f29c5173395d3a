"""Storms: real servers and processes, killed again and again, and one judge for each run.

The tests run them small; `python -m tests.faults.storms` runs them at the size that
`docs/explanation/reliability.md` tells of.
"""
