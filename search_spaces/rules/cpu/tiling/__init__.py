"""Reductions with reuse on CPUs: specs, register tiles, plans, copies of operands, loops."""
