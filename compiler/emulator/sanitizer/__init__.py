"""The sanitizer for GPU kernels: launches from text, run in several orders of threads."""
