"""What convolutions cost: register tiles worth trying, cycles of each algorithm, the best knobs."""
