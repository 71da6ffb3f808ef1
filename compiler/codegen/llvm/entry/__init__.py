"""Calls into a kernel: the checked entry, the fast call, the complete call in Python, DLPack."""
