"""Operators, each with its reference in numpy and its ways in numpy, PyTorch and Triton."""
