"""Threads and vector widths, which libraries read when they are loaded: each has its own process.

A processor with vectors of 512 bits passes for one with 256, for us and for the peers.
"""

from __future__ import annotations

import argparse
import os

_NARROW = {
    "WHET_CPU": "x86-64-v3",
    "ATEN_CPU_CAPABILITY": "avx2",  # PyTorch's own kernels, and its compiler
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "DNNL_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",  # numpy's GEMM
    "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL "
    "AVX512_SPR",
}


def asked_threads(arguments: list[str]) -> int:
    """The first of ``--threads`` on a command line, before anything else is imported."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    return int(parser.parse_known_args(arguments)[0].threads[0])


def as_narrow() -> dict[str, str]:
    """The environment of a process that uses vectors of 256 bits.

    onnxruntime and OpenVINO have no such setting, and are no peers there.
    """
    return os.environ | _NARROW


def widths() -> tuple[int, ...]:
    """The widths that this machine has, in bits, the widest first."""
    from whet.compiler.target.machine import host

    widest = 8 * host.vector_bytes()
    return (512, 256) if widest == 512 else (widest,)
