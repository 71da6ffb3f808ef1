"""The schedule primitives, a file for each kind."""
