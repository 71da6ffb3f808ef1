"""The passes, in the order in which they run, with a word on why where the order matters.

``lower()`` runs :data:`PASSES` on what comes from a schedule, ``build()`` afterwards those of
:data:`BUILD_PASSES`. A custom pass of phase 0 runs before all of them, one of phase 1, 2 or 3 after
the last of ours with this number. ``tir.transform`` has a function for each row with a ``does``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from whet.compiler.passes.contract.option import Option, PassConfig, count, section, switch
from whet.compiler.passes.features import Features
from whet.compiler.passes.gpu.inject_virtual_thread import inject_virtual_thread
from whet.compiler.passes.inject_prefetch import inject_prefetch
from whet.compiler.passes.instrument_bound_checkers import instrument_bound_checkers
from whet.compiler.passes.loops.common_subexpr_elim import common_subexpr_elim
from whet.compiler.passes.loops.flatten_buffer import flatten_buffer
from whet.compiler.passes.loops.hoist_if_then_else import hoist_if_then_else
from whet.compiler.passes.loops.interleave_lanes import interleave_lanes
from whet.compiler.passes.loops.loop_partition import loop_partition
from whet.compiler.passes.loops.narrow_data_type import narrow_data_type
from whet.compiler.passes.loops.register_accumulators import register_accumulators
from whet.compiler.passes.loops.remove_no_op import remove_no_op
from whet.compiler.passes.loops.rewrite_unsafe_select import rewrite_unsafe_select
from whet.compiler.passes.loops.simplify import simplify, simplify_loops
from whet.compiler.passes.loops.storage_rewrite import storage_rewrite
from whet.compiler.passes.loops.transpose_loads import transpose_loads
from whet.compiler.passes.loops.unroll_loop import unroll_loop
from whet.compiler.passes.loops.vectorize_loop import vectorize_loop
from whet.compiler.passes.names import PASS_NAMES
from whet.compiler.passes.pack_nibbles import pack_nibbles
from whet.compiler.passes.skip_assert import skip_assert
from whet.compiler.target import Target
from whet.compiler.tir.expr import Select
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.stmt import PREFETCH, PREFETCH_SPREAD, UNROLLED, VECTORIZED, AssertStmt


@dataclass(frozen=True, slots=True)
class Step:
    """A pass of lowering at its place.

    Attributes:
        name: TVM's name, where TVM has the pass.
        run: ``run(func, target, config) -> func``.
        does: the effect of the pass, in a sentence.
        why: the reason for its place.
        phase: custom passes of this phase run after it.
        in_simple_mode: whether ``lower(simple_mode=True)`` runs it.
        when: whether it has anything to do, by what a function contains and the configuration.
        options: its configuration keys.
        moves_loads: it moves reads past stores to other buffers: left out for functions whose
            arguments may overlap.
    """

    name: str
    run: Callable[[PrimFunc, Target, PassConfig], PrimFunc]
    does: str
    why: str
    phase: int = 1
    in_simple_mode: bool = True
    when: Callable[[Features, PassConfig], bool] | None = None
    options: Mapping[str, Option] = field(default_factory=dict)
    moves_loads: bool = False


class BuildStep(NamedTuple):
    """A pass of ``build`` for a kind of target.

    Attributes:
        name: TVM's name, where TVM has the pass.
        home: ``module:function``, imported when it runs: from a module and the target to a module.
        does: the effect of the pass, in a sentence.
        of_kernels: the function maps a kernel to a kernel instead, and runs on each.
    """

    name: str
    home: str
    does: str = ""
    of_kernels: bool = False


def _unrolls(has: Features, config: PassConfig) -> bool:
    given = config["tir.UnrollLoop"]
    request = given["auto_max_step"] or given["auto_max_extent"] or given["explicit_unroll"]
    return bool(request) or any(key.startswith("pragma_") and "unroll" in key for key in has.keys)


PASSES: tuple[Step, ...] = (
    Step(
        "SkipAssert",
        skip_assert,
        "Assertions taken for granted.",
        "before the bounds checker, whose assertions are asked for by another key",
        when=lambda has, config: config["tir.disable_assert"] and AssertStmt in has.nodes,
        options={
            "tir.disable_assert": switch(
                "assertions are dropped (those of the bounds checker stay)"
            )
        },
    ),
    Step(
        "InjectPrefetch",
        inject_prefetch,
        "Prefetches, one a cache line, of what a loop reads some iterations later.",
        "while every loop that a prefetch names is there, and before what it holds is checked",
        when=lambda has, config: not has.keys.isdisjoint((PREFETCH, PREFETCH_SPREAD)),
    ),
    Step(
        "Simplify",
        simplify,
        "Canonical indices, decided conditions, no loops of one step or none.",
        "indices become canonical, guards that always hold go",
        options={
            "tir.Simplify": section(
                "what the simplifier tries beyond its rules",
                transitively_prove_inequalities=switch(
                    "use two known conditions together to decide a third"
                ),
                convert_boolean_to_and_of_ors=switch(
                    "write conditions as a conjunction of disjunctions"
                ),
                apply_constraints_to_boolean_branches=switch(
                    "simplify the second operand of an `or` knowing that the first is false"
                ),
            ),
            "tir.debug_keep_trivial_loop": switch("loops of one step stay, to be read"),
        },
    ),
    Step(
        "InstrumentBoundCheckers",
        instrument_bound_checkers,
        "Accesses outside their buffers become errors; before FlattenBuffer, to name dimensions.",
        "while accesses have the dimensions that a user knows, and before a loop is split, so "
        "that an access has one assertion in each part",
        when=lambda has, config: config["tir.instrument_bound_checkers"],
        options={
            "tir.instrument_bound_checkers": switch(
                "an access outside its buffer ends the kernel with an error that names it"
            )
        },
    ),
    Step(
        "RewriteUnsafeSelect",
        rewrite_unsafe_select,
        "Choices between values that may not both be read become branches.",
        "while accesses can be proved dimension by dimension, and before vectors, whose masks "
        "then guard what may not be read",
        when=lambda has, config: Select in has.nodes,
    ),
    Step(
        "LoopPartition",
        loop_partition,
        "One loop of each nest split so that its main part needs no guard.",
        "while accesses are multi-dimensional and loops whole; splits off tails, so that the "
        "main part has no guards",
        in_simple_mode=False,
        options={
            "tir.LoopPartition": section(
                "which loops are split into a main part and tails",
                partition_const_loop=switch(
                    "loops of constant extent, too (TVM's default is False); where False, only "
                    "those that a pragma loop_partition_hint names",
                    True,
                ),
                no_unroll_loop_with_extent_one=switch(
                    "loops of one step that a split leaves are not dissolved"
                ),
                unroll_loop_with_partition_hint_no_interval=switch(
                    "a loop with a hint that has no part without guards is unrolled"
                ),
            )
        },
    ),
    Step(
        "Simplify",
        simplify,
        "",
        "the loops of a tail get their own length, before they are vectors",
    ),
    Step(
        "FlattenBuffer",
        flatten_buffer,
        "One index for each access, strides and offsets put in.",
        "strides come in; one index an access from here on",
    ),
    Step(
        "PackNibbles",
        pack_nibbles,
        "",
        "on flat indices, of which two are one byte; before vectors, whose lanes would share bytes",
        when=lambda has, config: has.nibbles,
    ),
    Step(
        "NarrowDataType",
        narrow_data_type,
        "Loops that count in 64 bits count in 32, where no index needs more.",
        "on flat indices: only now is it known how large they become",
        when=lambda has, config: has.wide_loops,
    ),
    Step(
        "VectorizeLoop",
        vectorize_loop,
        "Vectorised loops become vector operations, or serial loops; after FlattenBuffer.",
        "on flat indices, where a lane's step is one number; unrolled loops stay loops until "
        "a generator expands them",
        phase=2,
        options={"tir.disable_vectorize": switch("vectorised loops become serial ones")},
    ),
    Step(
        "TransposeLoads",
        transpose_loads,
        "",
        "on vectors, while unrolled loops are loops whose steps are compared",
        phase=2,
        when=lambda has, config: {UNROLLED, VECTORIZED} <= has.kinds,
        moves_loads=True,
    ),
    Step(
        "InterleaveLanes",
        interleave_lanes,
        "",
        "as TransposeLoads, and after it: larger squares are its own",
        phase=2,
        when=lambda has, config: {UNROLLED, VECTORIZED} <= has.kinds,
        moves_loads=True,
    ),
    Step(
        "InjectVirtualThread",
        inject_virtual_thread,
        "Virtual threads as loops around the statements that depend on them.",
        "after vectors, whose statements it repeats as they are; on flat buffers, which grow by "
        "one factor",
        phase=2,
        when=lambda has, config: not has.threads.isdisjoint(("vthread", "cthread")),
    ),
    Step(
        "StorageRewrite",
        storage_rewrite,
        "Large buffers that are never needed at the same time share their memory.",
        "when every buffer has its final size",
        phase=2,
        when=lambda has, config: has.large > 1 and not config["tir.disable_storage_rewrite"],
        options={
            "tir.disable_storage_rewrite": switch(
                "large buffers whose lifetimes do not meet keep memory of their own"
            )
        },
    ),
    Step(
        "UnrollLoop",
        unroll_loop,
        "Short loops unrolled, as the configuration says.",
        "after the passes that look at loops, of which it leaves fewer",
        phase=2,
        when=_unrolls,
        options={
            "tir.UnrollLoop": section(
                "when loops are unrolled",
                auto_max_step=count(
                    "serial loops of at most so many steps, inner loops multiplied, are unrolled"
                ),
                auto_max_depth=count("and of at most so many levels of loops", 8),
                auto_max_extent=count("and those of at most so many iterations, whatever is in"),
                explicit_unroll=switch(
                    "expand unrolled loops in the loop IR; TVM's default is True, here a "
                    "generator expands them, with the same result"
                ),
            )
        },
    ),
    Step(
        "SimplifyLoops",
        simplify_loops,
        "",
        "takes what vectors' guards have become around loops; their indices are canonical already",
        phase=3,
    ),
    Step(
        "RegisterAccumulators",
        register_accumulators,
        "What a loop adds up in memory added up in registers (Whet's own).",
        "after guards are decided, since a guarded store is left alone, and on vectors",
        phase=3,
        moves_loads=True,
    ),
    Step(
        "HoistIfThenElse",
        hoist_if_then_else,
        "A condition that is the same in each step of a loop is tested once.",
        "after loops have their final form",
        phase=3,
        when=lambda has, config: has.conditions,
        options={
            "tir.HoistIfThenElse": section(
                "which loops a condition may leave",
                support_block_scope_hosting=switch("those bound to GPU threads, too"),
            )
        },
    ),
    Step(
        "CommonSubexprElimTIR",
        common_subexpr_elim,
        "What a statement computes twice, it computes once.",
        "on final indices; only where configuration asks, since generators number values",
        phase=3,
        when=lambda has, config: not config["tir.disable_cse_tir"],
        moves_loads=True,
        options={
            "tir.disable_cse_tir": switch(
                "no common subexpressions in the loop IR; TVM's default is False, but the "
                "generators here write each operation once anyway",
                True,
            ),
            "tir.enable_equiv_terms_in_cse_tir": switch(
                "indices that are equal, though written otherwise, count as common, too"
            ),
        },
    ),
    Step(
        "RemoveNoOp",
        remove_no_op,
        "No loops, branches or buffers that nothing needs.",
        "last: removes what the others emptied",
        phase=3,
    ),
)

_HERE = "whet.compiler.passes"
#: of every kind, before its own, where a user has intrinsics of his own
LOWER_INTRIN = BuildStep(
    "LowerIntrin",
    f"{_HERE}.lower_intrin:lower_intrin",
    "Intrinsics of a user's own become what ``ir.register_intrin_lowering`` was told.",
)
#: kind of target -> its steps, in order. The CPU kinds have none: their generators write the
#: checked entry, calls and types themselves. A third party adds a row.
BUILD_PASSES: dict[str, tuple[BuildStep, ...]] = {
    "cuda": (
        # before a scope that no GPU has is taken for a thread's own
        BuildStep("VerifyScopes", f"{_HERE}.gpu.verify_scopes:check_scopes"),
        # while the loops that are bound to threads still show what the host would run itself
        BuildStep(
            "VerifyMemory",
            f"{_HERE}.gpu.verify_memory:check_memory",
            "Refuses host code that touches the memory of a GPU.",
        ),
        # equal thread tags become one variable; the others look at kernels alone
        BuildStep(
            "SplitHostDevice",
            f"{_HERE}.gpu.split_host_device:split_module",
            "Regions of thread-bound loops become kernels, functions of their own (lowered code).",
        ),
        # before anything is done about shared memory that no two threads share
        BuildStep(
            "PrivatizeShared",
            f"{_HERE}.gpu.privatize_shared:privatize_shared",
            "Shared memory of which each thread uses its own part, in registers; after "
            "SplitHostDevice.",
            of_kernels=True,
        ),
        # while a stage's stores are where its attribute is
        BuildStep(
            "InjectDoubleBuffer",
            f"{_HERE}.gpu.inject_double_buffer:inject_double_buffer",
            "Two buffers in turns where ``double_buffer`` asks for them; after SplitHostDevice.",
            of_kernels=True,
        ),
        # before shared memory is planned, of which shuffles need less
        BuildStep(
            "LowerThreadAllreduce",
            f"{_HERE}.gpu.lower_thread_allreduce:lower_thread_allreduce",
            "Reductions over a block's threads by shuffles of its warps; after SplitHostDevice.",
            of_kernels=True,
        ),
        # when every shared buffer has its final size
        BuildStep(
            "MergeDynamicSharedMemoryAllocations",
            f"{_HERE}.gpu.plan_shared_memory:plan_shared_memory",
            "A kernel's shared buffers in one arena; after SplitHostDevice.",
            of_kernels=True,
        ),
        # when it is known which buffers share their bytes
        BuildStep("ThreadSync", f"{_HERE}.gpu.thread_sync:sync_kernel", of_kernels=True),
        BuildStep("VerifyGPUCode", f"{_HERE}.gpu.verify_gpu_code:verify_module"),
    ),
}
PASS_NAMES.update(step.name for step in PASSES)
PASS_NAMES.update(step.name for step in (LOWER_INTRIN, *BUILD_PASSES["cuda"]))
