"""The driver interface, and NVIDIA's driver behind it by pycuda."""
