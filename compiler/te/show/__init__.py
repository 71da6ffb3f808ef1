"""Schedules and graphs as text and drawings."""
