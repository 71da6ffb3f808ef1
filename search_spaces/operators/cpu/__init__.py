"""Templates for CPUs."""
