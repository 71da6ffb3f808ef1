"""The rule for contractions on a GPU: tiles of a GEMM in shared memory and registers."""
