"""The machine at hand: processor, features, measured FMA peak and bandwidth, GPU."""
