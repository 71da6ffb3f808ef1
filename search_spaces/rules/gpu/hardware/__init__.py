"""The limits of a GPU, and loops over its blocks, threads and lanes."""
