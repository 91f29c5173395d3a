"""Rebuilding, verifying and users' own projections."""
