"""Reverse-mode derivatives of tensor expressions."""
