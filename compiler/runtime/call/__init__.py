"""Calls from Python: the fast call in machine code, the complete one, the protocols behind."""
