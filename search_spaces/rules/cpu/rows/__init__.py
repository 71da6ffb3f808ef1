"""Chains of rows on CPUs: softmax, normalisation, argmax."""
