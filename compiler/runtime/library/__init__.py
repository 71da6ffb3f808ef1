"""Modules as files: export, load, integrity, weights."""
