"""From the host's parts of a split module to launch plans: plain data instead of loop IR.

Before::

    def main(A: float32[48], B: float32[48]):
        T = allocate([48], "float32")
        launch_kernel("main_kernel0", A, T, 6, 1, 1, 8, 1, 1)
        launch_kernel("main_kernel1", T, B, 6, 1, 1, 8, 1, 1)

After::

    LaunchPlan("main", (Temporary("T", "float32", (48,)),), (
        Launch("main_kernel0", ("A", "T"), (6, 1, 1), (8, 1, 1), 0),
        Launch("main_kernel1", ("T", "B"), (6, 1, 1), (8, 1, 1), 0)))

A loop of the host's becomes as many launches as it has steps.
"""

from __future__ import annotations

from collections.abc import Mapping

from whet.compiler.abi.extent import Extent, Symbol
from whet.compiler.abi.extent_expr import from_expr
from whet.compiler.abi.launch import Argument, Launch, LaunchPlan, Temporary
from whet.compiler.abi.signature import KernelSignature
from whet.compiler.arith import Analyzer
from whet.compiler.errors import LowerError
from whet.compiler.passes.threads.guards import HARDWARE
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import Call, PrimExpr, SizeVar, Var
from whet.compiler.tir.function import IRModule, PrimFunc
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import (
    Allocate,
    AttrStmt,
    DeclBuffer,
    Evaluate,
    For,
    SeqStmt,
    Stmt,
    is_nothing,
)
from whet.compiler.tir.visit.rewrite import substitute, variables

MOST_LAUNCHES = 4096
"""Launches of one call: beyond that a loop of the host's belongs into a kernel."""


def plans_of(mod: IRModule) -> tuple[tuple[LaunchPlan, ...], tuple[KernelSignature, ...]]:
    """The host's launches for each function of a split module, and the signatures for callers.

    Args:
        mod: functions with their kernels, after the passes of ``build``. A kernel that belongs to
            no function of the module is a function of its own.

    Raises:
        LowerError: the host has work that a plan cannot say.
    """
    kernels = {k: f for k, f in mod.functions.items() if is_kernel(f)}
    plans = [_Planner(f, kernels).plan() for k, f in mod.functions.items() if k not in kernels]
    signatures = [f.attrs["signature"] for k, f in mod.functions.items() if k not in kernels]
    return tuple(plans), tuple(signatures)


def is_kernel(func: PrimFunc) -> bool:
    """True for a function that runs on the device."""
    return func.attrs.get("calling_conv") == "kernel_launch"


class _Planner:
    """Reads one function's host part."""

    def __init__(self, func: PrimFunc, kernels: Mapping[str, PrimFunc]) -> None:
        self.func = func
        self.kernels = kernels
        self.signature: KernelSignature = func.attrs["signature"]
        self.taken = {p.name for p in self.signature.params} | set(self.signature.symbols)
        self.arrays: dict[Var, str] = {}  # the address of a buffer -> its name in the plan
        self.values: dict[Var, PrimExpr] = {}  # variables -> what stands for them in texts
        self.analyzer = Analyzer()
        for given, described in zip(func.params, self.signature.params):
            if isinstance(given, Buffer):
                self.arrays[given.data] = described.name
            else:
                self.values[given] = Var(described.name, given.dtype)
        for v, name in zip(func.attrs.get("symbols", ()), self.signature.symbols):
            self.values[v] = SizeVar(name, v.dtype)
        self.temporaries: list[Temporary] = []
        self.launches: list[Launch] = []

    def plan(self) -> LaunchPlan:
        """The whole plan."""
        self.visit(self.func.body)
        return LaunchPlan(self.signature.name, tuple(self.temporaries), tuple(self.launches))

    def visit(self, n: Stmt) -> None:
        """Take in one statement."""
        if isinstance(n, SeqStmt):
            for x in n.seq:
                self.visit(x)
        elif isinstance(n, Allocate):
            self._temporary(n.buffer)
            self.visit(n.body)
        elif isinstance(n, (AttrStmt, DeclBuffer)):
            self.visit(n.body)
        elif isinstance(n, For):
            self._loop(n)
        elif isinstance(n, Evaluate) and isinstance(n.value, Call):
            self._call(n.value)
        elif not is_nothing(n):
            raise self._no_plan(f"a {type(n).__name__} stands outside all threads")

    def _temporary(self, b: Buffer) -> None:
        if b.data in self.arrays:
            return  # a loop's body is read again
        name, count = b.name, 0
        while name in self.taken:
            count += 1
            name = f"{b.name}_{count}"
        self.taken.add(name)
        self.arrays[b.data] = name
        self.temporaries.append(Temporary(name, b.dtype, tuple(map(self._extent, b.shape))))

    def _loop(self, n: For) -> None:
        steps = self._extent(n.extent)
        if not isinstance(steps, int):
            raise self._no_plan(
                f"the loop over {n.var.name} is outside all threads and has {steps} steps, each "
                "with launches of its own",
                "bind the loop, or reorder it inside the loops that are bound; the steps of a "
                "te.scan go inside by themselves where all of a step is in one stage bound to "
                "threads, and no column reads another",
            )
        for k in range(steps):
            self.values[n.var] = self._value(ops.add(n.min, ops.const(k, n.var.dtype)))
            self.visit(n.body)
        self.values.pop(n.var, None)

    def _call(self, call: Call) -> None:
        if call.op != "launch_kernel":
            raise self._no_plan(
                f"a call of {call.op} is outside all threads",
                'what the host calls is built for "llvm"',
            )
        name = call.args[0].value  # type: ignore[attr-defined]
        kernel = self.kernels[name]
        count = len(kernel.params)
        given, spans = call.args[1 : 1 + count], call.args[1 + count :]
        extents = [self._extent(x) for x in spans]
        grid, block = (extents[0], extents[1], extents[2]), (extents[3], extents[4], extents[5])
        shared = kernel.attrs.get("shared_bytes", ops.const(0))
        arguments = tuple(self._argument(p, a) for p, a in zip(kernel.params, given))
        self.launches.append(Launch(name, arguments, grid, block, self._extent(shared)))
        if len(self.launches) > MOST_LAUNCHES:
            raise self._no_plan(
                f"loops outside all threads make more than {MOST_LAUNCHES} launches",
                "bind these loops, or reorder them inside the loops that are bound",
            )

    def _argument(self, param: Buffer | Var, given: PrimExpr) -> Argument:
        if isinstance(param, Buffer):
            assert isinstance(given, Var)
            return self.arrays[given]
        if isinstance(given, Var) and given in self.values:
            value = self.values[given]
            if isinstance(value, Var):
                return value.name  # of any type: a number is handed on as it came
        extent = self._extent(given)
        return extent.name if isinstance(extent, Symbol) else extent

    def _extent(self, n: PrimExpr) -> Extent:
        return from_expr(self._value(n), lambda v: v.name)

    def _value(self, n: PrimExpr) -> PrimExpr:
        free = next((v.name for v in variables(n) if v not in self.values), None)
        if free is not None:
            raise self._no_plan(
                f"the kernels use {free}, and nothing gives it a value"
                + (": there is no loop over these threads around" if free in HARDWARE else ""),
                "use a loop's variable, or pass it as an argument",
            )
        return self.analyzer.simplify(substitute(n, self.values))

    def _no_plan(self, why: str, out: str = "bind its loops to threads") -> LowerError:
        return LowerError(f"build {self.signature.name} for a GPU", why, out)
