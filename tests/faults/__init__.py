"""Faults: what the store promises, judged while everything around it breaks."""
