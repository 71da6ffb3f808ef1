"""The cost of convolutions: register tiles to try, cycles of each algorithm, the best knobs."""
