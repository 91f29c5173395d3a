"""Kinds of the LangGraph adapter."""
