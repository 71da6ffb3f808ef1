"""Threads of kernels: their loops made one, the accesses of each, and the memory they share."""
