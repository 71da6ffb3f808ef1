"""Models some of whose sizes stay symbols: one build, any sizes of their ranges."""
