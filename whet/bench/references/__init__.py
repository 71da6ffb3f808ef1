"""Reference results of operators, in numpy and float64."""
