"""Measurements, in ratios within one run. Nothing here asserts a time."""
