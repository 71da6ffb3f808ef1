"""Templates for GPUs: the same names and arguments as the CPU's, other schedules."""
