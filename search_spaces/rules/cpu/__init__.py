"""Rules for CPUs."""
