"""Knobs, one kind a file, and the entities that templates apply to a schedule."""
