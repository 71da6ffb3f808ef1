"""Looking at loop IR without changing it: checks, counts, comparisons (TVM's ``tir.analysis``)."""

from whet.compiler.tir.analysis import effects
from whet.compiler.tir.analysis.counts import (
    calculate_allocated_bytes,
    detect_buffer_access_lca,
    estimate_flops,
    estimate_tir_flops,
)
from whet.compiler.tir.analysis.device_memory import verify_memory
from whet.compiler.tir.analysis.gpu_code import verify_gpu_code
from whet.compiler.tir.analysis.structural import (
    assert_structural_equal,
    expr_deep_equal,
    structural_equal,
    structural_hash,
)
from whet.compiler.tir.analysis.types import type_errors
from whet.compiler.tir.analysis.well_formed import (
    undefined_vars,
    verify_compact_buffer,
    verify_ssa,
    verify_well_formed,
)
from whet.compiler.tir.visit.expect import EXPRESSIONS, guarded

#: for callers outside; the passes ask ``effects.is_pure``
is_pure = guarded(effects.is_pure, EXPRESSIONS, "is_pure(node)")

__all__ = [
    "assert_structural_equal",
    "calculate_allocated_bytes",
    "detect_buffer_access_lca",
    "estimate_flops",
    "estimate_tir_flops",
    "expr_deep_equal",
    "is_pure",
    "structural_equal",
    "structural_hash",
    "type_errors",
    "undefined_vars",
    "verify_compact_buffer",
    "verify_gpu_code",
    "verify_memory",
    "verify_ssa",
    "verify_well_formed",
]
