"""Tasks: a workload for a target, and the space of its programs."""
