"""Matrix products on CPUs: register tiles, cache blocks, packed operands."""
