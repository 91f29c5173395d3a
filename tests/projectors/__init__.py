"""Projectors: tables of the log in other databases."""
