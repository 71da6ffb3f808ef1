"""CUDA C that was written by hand, parsed and adapted to the emulator."""
