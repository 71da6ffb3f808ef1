"""ConfigSpace: collected, counted, indexed and sampled without enumeration."""
