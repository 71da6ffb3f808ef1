"""GPU kernels of loop IR as CUDA C text."""

from whet.compiler.codegen.cuda.generate import generate, source

__all__ = ["generate", "source"]
