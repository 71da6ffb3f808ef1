"""Passes over loop nests for every target: guards, vectors, unrolling, storage, simplification."""
