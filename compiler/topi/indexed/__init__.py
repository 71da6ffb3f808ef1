"""Operators that pick, put and order elements by indices."""
