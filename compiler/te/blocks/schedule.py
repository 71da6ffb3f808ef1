"""``tir.Schedule``: TVM's primitives on blocks and loops, by the schedule of te behind them.

A block is a stage and a loop one of its loops, so that each primitive is one or several of te's:
the program that runs is te's, and the blocks show it. ``reverse_compute_at`` is te's ``compute_at``
of the producer, in the consumer's loops, which get the producer's splits.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from whet.compiler.absent import missing_member
from whet.compiler.errors import ScheduleError
from whet.compiler.te.blocks import loops, placing, sampling, storing
from whet.compiler.te.blocks.handles import BlockRV, ExprRV, LoopRV
from whet.compiler.te.blocks.record import query
from whet.compiler.te.blocks.state import FunctionState
from whet.compiler.te.blocks.trace import Trace
from whet.compiler.te.lang.tensor import Operation
from whet.compiler.te.stage import Stage
from whet.compiler.tir.blocks.paths import block_paths
from whet.compiler.tir.expr import IntImm, IterVar
from whet.compiler.tir.function import IRModule, PrimFunc
from whet.compiler.tir.stmt import Block, For

__all__ = ["BlockRV", "ExprRV", "LoopRV", "Schedule", "Trace"]


class Schedule:
    """A module of functions of blocks, rewritten by primitives.

    In the examples ``loops(sch)`` is the text of the loops, without what blocks read and write.

    Attributes:
        trace: the primitives so far.
        states: function -> its schedule.
    """

    # the primitives, a function each
    split = loops.split
    fuse = loops.fuse
    reorder = loops.reorder
    parallel = loops.parallel
    vectorize = loops.vectorize
    unroll = loops.unroll
    bind = loops.bind
    thread = loops.thread
    annotate = loops.annotate
    unannotate = loops.unannotate
    tensorize = loops.tensorize
    compute_at = placing.compute_at
    reverse_compute_at = placing.reverse_compute_at
    compute_inline = placing.compute_inline
    reverse_compute_inline = placing.reverse_compute_inline
    cache_read = storing.cache_read
    cache_write = storing.cache_write
    rfactor = storing.rfactor
    decompose_reduction = storing.decompose_reduction
    set_scope = storing.set_scope
    storage_align = storing.storage_align
    transform_layout = storing.transform_layout
    rolling_buffer = storing.rolling_buffer
    sample_perfect_tile = sampling.sample_perfect_tile
    sample_categorical = sampling.sample_categorical

    def __init__(
        self,
        mod: PrimFunc | IRModule,
        *,
        seed: int | None = None,
        debug_mask: str | int = "none",
        error_render_level: str = "detail",
    ) -> None:
        functions = {"main": mod} if isinstance(mod, PrimFunc) else mod
        if not isinstance(functions, Mapping) or not functions:
            raise ScheduleError(
                f"tir.Schedule({type(mod).__name__})",
                "it is no function and no module of functions",
                "te.create_prim_func([A, B]) makes one",
            )
        self.states = {str(n): FunctionState.of(n, f) for n, f in functions.items()}
        self.trace: Trace | None = Trace()
        self.threads: dict[str, IterVar] = {}
        self.drawn: Any = None
        self._working_on: str | None = None
        self._blocks: dict[BlockRV, tuple[str, Operation | None, str]] = {}
        self._loops: dict[LoopRV, tuple[str, Operation, IterVar]] = {}
        self.seed(seed)

    if not TYPE_CHECKING:  # type checkers know the names that are there

        def __getattr__(self, name: str) -> object:
            """An error that says what to use instead of a primitive of TVM's."""
            raise missing_member(Schedule, name, "tir")

    # the module

    @property
    def mod(self) -> IRModule:
        """The functions as they are now."""
        return IRModule({name: state.function for name, state in self.states.items()})

    @property
    def func_working_on(self) -> str | None:
        """The function that blocks are looked up in where none is named."""
        return self._working_on

    def work_on(self, func_name: str) -> None:
        """Look blocks up in this function."""
        self.function_named(func_name)
        self._working_on = func_name

    def show(self, style: str | None = None, black_format: bool = True) -> None:
        """Print the module and the trace."""
        print(self.mod.script())
        if self.trace is not None:
            print(self.trace)

    def copy(self) -> Schedule:
        """The same schedule, to be changed apart; blocks and loops of this one name its own."""
        new = Schedule.__new__(Schedule)
        new.__dict__.update(self.__dict__)
        new.restore(self.saved())
        new.trace = None if self.trace is None else Trace(list(self.trace.insts))
        new.threads = dict(self.threads)
        new.rng = random.Random()
        new.rng.setstate(self.rng.getstate())
        return new

    def seed(self, seed: int | None) -> None:
        """Begin the draws anew; None or -1: anywhere."""
        self.rng = random.Random(None if seed in (None, -1) else seed)

    def fork_seed(self) -> int:
        """A seed for another schedule, drawn from this one's."""
        return self.rng.randrange(1, 2**31)

    def saved(self) -> tuple[Any, ...]:
        """The state that a primitive may change, copied."""
        states = {name: state.copy() for name, state in self.states.items()}
        return states, dict(self._blocks), dict(self._loops)

    def restore(self, saved: tuple[Any, ...]) -> None:
        """Take back what was changed since."""
        self.states, self._blocks, self._loops = saved

    # blocks and loops

    def function_named(self, name: str | None) -> tuple[str, FunctionState]:
        """The function of a name; the only one, or main, for None.

        Raises:
            ScheduleError: there is none.
        """
        wanted = name or self._working_on
        if wanted is None:
            wanted = next(iter(self.states)) if len(self.states) == 1 else "main"
        if wanted not in self.states:
            raise ScheduleError(
                f"the function {wanted}", "it is not in the module", f"it has {[*self.states]}"
            )
        return wanted, self.states[wanted]

    @query
    def get_block(self, name: str, func_name: str | None = None) -> BlockRV:
        """A block by its name; ``"root"`` is around all others.

        Raises:
            ScheduleError: there is no such block.
        """
        where, state = self.function_named(func_name)
        if not isinstance(name, str):
            raise ScheduleError(f"get_block({name!r})", "a block is found by its name, a text")
        if name == "root":
            return self._new_block(where, None, name)
        names = state.names()
        for stage in state.blocks():
            shown = names[stage]
            if stage.origin_op in state.view.decomposed:
                if name == f"{shown}_init":
                    return self._new_block(where, stage.origin_op, name, "init")
                shown = f"{shown}_update"
            if name in (shown, names[stage]):
                return self._new_block(where, stage.origin_op, name)
        known = ", ".join(names[s] for s in state.blocks())
        raise ScheduleError(f"get_block({name!r})", "there is no such block", f"blocks: {known}")

    @query
    def get_loops(self, block: BlockRV) -> list[LoopRV]:
        """The loops around a block, outermost first."""
        where, op, kind = self._known(block)
        if op is None:
            return []
        state = self.states[where]
        stage = state.stage(op)
        around = state.loops(stage)
        if kind == "init":
            raise ScheduleError(
                f"get_loops({block.name})",
                f"the loops that set first values follow those of {state.names()[stage]}",
                f"annotate the data loops of {state.names()[stage]}",
            )
        return [self.new_loop(state, s, a) for s, a in around]

    @query
    def get_child_blocks(self, block_or_loop: BlockRV | LoopRV) -> list[BlockRV]:
        """The blocks within a loop, or within the root block."""
        if isinstance(block_or_loop, LoopRV):
            state, _, axis = self.loop(block_or_loop)
            inside = [s for s in state.blocks() if any(a is axis for _, a in state.loops(s))]
        else:
            where, op, _ = self._known(block_or_loop)
            state = self.states[where]
            inside = state.blocks() if op is None else []
        return [self.new_block(state, s) for s in inside]

    @query
    def get_producers(self, block: BlockRV) -> list[BlockRV]:
        """The blocks that write what a block reads."""
        state, stage = self.block(block)
        made = [state.stage(t.op) for t in state.reads(stage)]
        return [self.new_block(state, s) for s in dict.fromkeys(made) if state.is_block(s)]

    @query
    def get_consumers(self, block: BlockRV) -> list[BlockRV]:
        """The blocks that read what a block writes."""
        state, stage = self.block(block)
        readers = [
            s
            for s in state.blocks()
            if s is not stage and any(state.stage(t.op) is stage for t in state.reads(s))
        ]
        return [self.new_block(state, s) for s in readers]

    def get(self, rand_var_or_sref: BlockRV | LoopRV | int) -> Block | For | IntImm:
        """The block, the loop or the number behind a name that a primitive gave."""
        x = rand_var_or_sref
        if isinstance(x, int):
            return IntImm("int32", int(x))
        if isinstance(x, BlockRV):
            where, op, kind = self._known(x)
            state = self.states[where]
            name = "root" if op is None else self._text_name(state, state.stage(op), kind)
            return block_paths(state.function.body)[name][0]
        state, _, axis = self.loop(x)
        inner = next(s for s in state.blocks() if any(a is axis for _, a in state.loops(s)))
        place = next(k for k, (_, a) in enumerate(state.loops(inner)) if a is axis)
        name = self._text_name(state, inner, "")
        return block_paths(state.function.body)[name][1][place]

    def _text_name(self, state: FunctionState, stage: Stage, kind: str) -> str:
        name = state.names()[stage]
        if stage.origin_op not in state.view.decomposed:
            return name
        return f"{name}_{kind or 'update'}"

    # handles

    def new_block(self, state: FunctionState, stage: Stage, kind: str = "") -> BlockRV:
        """A name for a block."""
        where = next(n for n, s in self.states.items() if s is state)
        name = self._text_name(state, stage, kind)
        return self._new_block(where, stage.origin_op, name, kind)

    def _new_block(self, where: str, op: Operation | None, name: str, kind: str = "") -> BlockRV:
        out = BlockRV(name)
        self._blocks[out] = where, op, kind
        return out

    def new_loop(self, state: FunctionState, stage: Stage, axis: IterVar) -> LoopRV:
        """A name for a loop."""
        where = next(n for n, s in self.states.items() if s is state)
        out = LoopRV(state.loop_name(axis))
        self._loops[out] = where, stage.origin_op, axis
        return out

    def _known(self, block: Any) -> tuple[str, Operation | None, str]:
        if not isinstance(block, BlockRV) or block not in self._blocks:
            raise ScheduleError(
                f"a primitive of {block!r}",
                "it is no block of this schedule",
                "sch.get_block(name)",
            )
        return self._blocks[block]

    def block(self, block: BlockRV) -> tuple[FunctionState, Stage]:
        """The function and the stage of a block.

        Raises:
            ScheduleError: for anything else, for the root, and for a block of first values.
        """
        where, op, kind = self._known(block)
        if op is None or kind:
            what = "is around all others" if op is None else "sets first values"
            raise ScheduleError(
                f"a primitive of the block {block.name}",
                f"it {what} and has no loops of its own",
                "name the block that computes",
            )
        state = self.states[where]
        stage = state.stage(op)
        if not state.is_block(stage):
            raise ScheduleError(
                f"a primitive of the block {block.name}", "it was inlined: it is no block any more"
            )
        return state, stage

    def loop(self, loop: LoopRV) -> tuple[FunctionState, Stage, IterVar]:
        """The function, the stage and the axis of a loop.

        Raises:
            ScheduleError: for anything else, and for a loop that is none any more.
        """
        if not isinstance(loop, LoopRV) or loop not in self._loops:
            raise ScheduleError(
                f"a primitive of {loop!r}", "it is no loop of this schedule", "sch.get_loops(block)"
            )
        where, op, axis = self._loops[loop]
        state = self.states[where]
        stage = state.stage(op)
        if not any(a is axis for a in stage.leaf_iter_vars):
            raise ScheduleError(
                f"a primitive of the loop {loop.name}",
                "it is no loop any more: it was split, fused, or its block was made anew",
                "sch.get_loops(block)",
            )
        return state, stage, axis

    def loops_of_one(self, request: str, many: Any) -> tuple[FunctionState, Stage, list[IterVar]]:
        """The function, the stage and the axes of loops of one block.

        Raises:
            ScheduleError: for none, and for loops of several blocks.
        """
        if not many:
            raise ScheduleError(request, "no loop is named")
        found = [self.loop(x) for x in many]
        state, stage, _ = found[0]
        if any(s is not stage for _, s, _ in found):
            names = state.names()
            raise ScheduleError(
                request,
                "the loops belong to "
                + " and ".join(dict.fromkeys(names.get(s, s.op.name) for _, s, _ in found)),
                "do it before compute_at or reverse_compute_at brings the blocks together",
            )
        return state, stage, [a for _, _, a in found]

    def rename(
        self, state: FunctionState, blocks: Mapping[Operation, Operation],
        axes: Mapping[IterVar, tuple[Operation, IterVar]],
    ) -> None:  # fmt: skip
        """Let names stand for other blocks and loops of a function."""
        where = next(n for n, s in self.states.items() if s is state)
        for rv, (f, op, kind) in list(self._blocks.items()):
            if f == where and op is not None and op in blocks:
                self._blocks[rv] = f, blocks[op], kind
        for loop, (f, _, axis) in list(self._loops.items()):
            if f == where and axis in axes:
                self._loops[loop] = f, *axes[axis]
