"""GPUs: a small driver interface, pycuda behind it, arrays on a device, launches."""
