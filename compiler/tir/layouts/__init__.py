"""Where elements are kept: maps of indices, and layouts by name."""
