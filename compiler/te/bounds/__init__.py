"""Bound inference: extents of loops, regions of attached stages, over one algebra of sizes."""
