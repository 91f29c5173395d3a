"""Tests of runs that workers do."""
