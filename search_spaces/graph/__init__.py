"""Compute graphs as rules see them: stages, groups, roles, identities, and graphs as data."""
