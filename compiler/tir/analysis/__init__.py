"""Looking at loop IR without changing it: checks, counts, comparisons (TVM's ``tir.analysis``)."""

from whet.compiler.tir.analysis import counts, device_memory, effects, gpu_code, well_formed
from whet.compiler.tir.analysis.anchor import find_anchor_block
from whet.compiler.tir.analysis.structural import (
    assert_structural_equal,
    expr_deep_equal,
    structural_equal,
    structural_hash,
)
from whet.compiler.tir.analysis.types import type_errors
from whet.compiler.tir.blocks.lower import of_loops
from whet.compiler.tir.visit.expect import EXPRESSIONS, guarded

#: for callers outside; the passes ask ``effects.is_pure``
is_pure = guarded(effects.is_pure, EXPRESSIONS, "is_pure(node)")

# functions of blocks are looked at as the loops that they become
calculate_allocated_bytes = of_loops(counts.calculate_allocated_bytes)
detect_buffer_access_lca = of_loops(counts.detect_buffer_access_lca)
estimate_flops = estimate_tir_flops = of_loops(counts.estimate_flops)
undefined_vars = of_loops(well_formed.undefined_vars)
verify_compact_buffer = of_loops(well_formed.verify_compact_buffer)
verify_gpu_code = of_loops(gpu_code.verify_gpu_code)
verify_memory = of_loops(device_memory.verify_memory)
verify_ssa = of_loops(well_formed.verify_ssa)
verify_well_formed = of_loops(well_formed.verify_well_formed)

__all__ = [
    "assert_structural_equal",
    "calculate_allocated_bytes",
    "detect_buffer_access_lca",
    "estimate_flops",
    "estimate_tir_flops",
    "expr_deep_equal",
    "find_anchor_block",
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
