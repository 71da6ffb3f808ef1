"""The compiler: from tensor expressions and schedules to kernels that are called with arrays."""
