"""Tiles that an instruction computes: their form matched, their regions bound to its buffers."""
