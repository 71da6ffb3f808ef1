"""The two stages of a measurement, build and run, and the work of their workers."""
