"""The built-in kinds, one a module: its records, its keys and its fold. `registry` lists them.

No I/O, no clock, no asyncio.
"""
