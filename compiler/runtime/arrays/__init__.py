"""Arrays in host memory, and their exchange by DLPack."""
