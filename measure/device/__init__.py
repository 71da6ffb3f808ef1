"""Devices that measure: their names, their identities in a log, the choice of one for a search."""
