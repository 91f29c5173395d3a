"""Kinds of the Pydantic AI adapter."""
