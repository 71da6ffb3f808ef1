"""Traced sizes: integers that record the arithmetic done with them."""
