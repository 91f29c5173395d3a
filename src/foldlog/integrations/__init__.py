"""Frameworks that keep their state in foldlog, one package or module each.

Importing one does not import its framework: that happens when its store is made.
"""
