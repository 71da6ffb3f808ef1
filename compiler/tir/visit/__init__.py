"""Visitors and rewriters of the loop IR, and what is written with them."""
