"""Rules for GPUs."""
