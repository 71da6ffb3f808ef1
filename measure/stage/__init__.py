"""The two stages of a measurement, build and run: what each worker does."""
