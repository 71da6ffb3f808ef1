"""Models: their groups as tasks, a config for each, and the function that runs them all."""
