"""Kinds of the rh-agents adapter."""
