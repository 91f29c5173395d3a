"""Threads of LangGraph are a facade, and tried on its backends."""

from tests.support.in_memory_first import backend as backend
