"""Measuring on GPUs, and predicting where there is none: builders, workers, a static cost model."""
