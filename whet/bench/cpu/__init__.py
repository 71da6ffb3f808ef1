"""The contest on cores of the CPU."""
