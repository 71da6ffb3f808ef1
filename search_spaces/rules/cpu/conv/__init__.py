"""Convolutions on CPUs: direct, im2col and Winograd."""
