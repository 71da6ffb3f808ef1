"""The rule for convolutions of images on a GPU: implicit GEMM, direct, Winograd's algorithm."""
