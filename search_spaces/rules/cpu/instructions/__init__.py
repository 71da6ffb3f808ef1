"""Sums of products by the instructions that a processor has for them (tensor intrinsics)."""
