"""From a kernel, a function over thread variables, to CUDA C text."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from whet.compiler.abi.signature import KernelSignature
from whet.compiler.arith import Analyzer
from whet.compiler.codegen.c.functions import SHORT_FLOATS, Functions
from whet.compiler.codegen.c.kernel import CKernel, comment_text
from whet.compiler.codegen.c.precedence import ADD, ATOM, MUL, UNARY, Text
from whet.compiler.codegen.c.statements import initializer, refuse_import, shape_text
from whet.compiler.codegen.constants import count_of
from whet.compiler.codegen.cuda.dialect import CudaDialect
from whet.compiler.codegen.cuda.dot_product import DP4A, PACK, with_dot_products, word_of
from whet.compiler.codegen.cuda.vector_code import VectorStores
from whet.compiler.codegen.outside import ADDRESSES, EXTERNS
from whet.compiler.errors import CodegenError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import (
    BufferLoad,
    BufferView,
    Call,
    CmpOp,
    IntImm,
    Not,
    PrimExpr,
    Ramp,
    StringImm,
    Var,
)
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    Stmt,
)
from whet.compiler.tir.visit.rewrite import nodes_of

_BARRIERS = {
    "shared": "__syncthreads();",
    "shared.dyn": "__syncthreads();",
    "warp": "__syncwarp();",
}
#: functions that move values between the lanes of a warp
_SHUFFLES = ("warp_shuffle", "warp_shuffle_down", "warp_shuffle_up", "warp_shuffle_xor")
_COORDINATES = {"blockIdx": "b", "threadIdx": "t"}
#: the pragma that says how many blocks should fit a multiprocessor together
MIN_BLOCKS = "pragma_min_blocks_per_sm"


class CudaKernel(CKernel):
    """One ``__global__`` function.

    Args:
        use: the functions that the text calls.
        func: the kernel; its attribute ``thread_extent`` maps tags to extents.
        signature: its parameters.

    Attributes:
        offsets: shared buffer's id -> bytes into the arena.
    """

    def __init__(self, use: Functions, func: PrimFunc, signature: KernelSignature) -> None:
        super().__init__(CudaDialect(_needs_long(func)), use, func, signature)
        self.statements.rules[AttrStmt] = self._attribute
        self.vectors = VectorStores(self.statements)
        self.offsets: dict[int, PrimExpr] = {}
        self.asserts = 0
        self.min_blocks = 0
        self._intrinsics: dict[str, Callable[[Call], Text | None]] = {
            **dict.fromkeys(EXTERNS, self._extern),
            **dict.fromkeys(ADDRESSES, self._address),
            **dict.fromkeys((*_SHUFFLES, *(f"tvm_{op}" for op in _SHUFFLES)), self._shuffle),
            DP4A: self._dot_product,
            PACK: self._packed,
        }

    def kernel_text(self) -> str:
        """The kernel and the constants that it needs before it."""
        params = ", ".join(self.params())
        for buffer in self.func.params:
            if isinstance(buffer, Buffer):
                self._extent(buffer, self.names.of(buffer))
        self.statements.statement(with_dot_products(self.func.body, self.scope.analyzer))
        head = f'extern "C" __global__ void {self._bounds()}{self.name}(\n    {params}\n) {{'
        return "\n".join([*self.globals, head, *self.scope.lines, "}"])

    def _extent(self, buffer: Buffer, name: str) -> None:
        """The number of elements of a parameter, where its shape gives it."""
        begin = buffer.elem_offset
        if not buffer.strides and all(map(self._is_known, (begin, *buffer.shape))):
            count = reduce(ops.multiply, buffer.shape) if buffer.shape else begin
            self.line(f"WHET_EXTENT({name}, {self.index(ops.add(count, begin))});")

    def _is_known(self, n: PrimExpr) -> bool:
        return isinstance(n, IntImm) or self.expressions.is_index(n)

    def _bounds(self) -> str:
        """The launch bounds of the kernel."""
        extents = self.func.attrs.get("thread_extent", {}).items()
        count = count_of([extent for tag, extent in extents if tag.startswith("threadIdx")])
        if not count:
            return ""  # not known before the launch
        blocks = f", {self.min_blocks}" if self.min_blocks else ""
        return f"__launch_bounds__({count}{blocks}) "

    # threads and barriers

    def _attribute(self, n: AttrStmt) -> None:
        """A thread variable, a place in shared memory or a pragma; others change nothing here."""
        refuse_import(n)
        if n.key == "thread_extent" and isinstance(n.node, Var):
            self._thread(n.node)
            self.scope.analyzer.bind_loop(n.node, IntImm("int32", 0), n.value)
        elif n.key == "shared_offset":
            self.offsets[id(n.node)] = n.value
        elif n.key == MIN_BLOCKS and isinstance(n.value, IntImm):
            self.min_blocks = n.value.value
        self.statements.statement(n.body)

    def _thread(self, var: Var) -> None:
        """A variable for a coordinate of the thread or of its block."""
        place, _, axis = var.name.partition(".")
        name = self.names.new(var, f"{_COORDINATES.get(place, place)}{axis}")
        self.line(f"const {self.d.index} {name} = {var.name};")
        self.scope.integers[var] = True

    def evaluate(self, n: Evaluate) -> None:
        call = n.value
        if not isinstance(call, Call) or call.op.removeprefix("tir.") != "tvm_storage_sync":
            self.statements.evaluate(n)
            return
        first = call.args[0] if call.args else None
        scope = first.value if isinstance(first, StringImm) else "shared"
        if scope not in _BARRIERS:
            raise CodegenError(
                f"a barrier of scope {scope!r}",
                "CUDA has none in a kernel",
                f"scopes: {', '.join(_BARRIERS)}",
            )
        self.line(_BARRIERS[scope])

    # calls

    def intrinsic(self, n: Call) -> Text | None:
        """The call of a function that only CUDA has; None for another one."""
        write = self._intrinsics.get(n.op.removeprefix("tir."))
        return write(n) if write else None

    def _extern(self, n: Call) -> Text | None:
        name, *args = n.args
        if not isinstance(name, StringImm):
            return None
        return f"{name.value}({', '.join(map(self._extern_argument, args))})", ATOM

    def _address(self, n: Call) -> Text | None:
        load = n.args[0]
        if not isinstance(load, BufferLoad):
            return None
        element = self.expressions.indices.element(load.buffer, load.indices)
        pointer = self.scope.pointer(load.buffer)
        return f"{pointer} + ({element.removeprefix(pointer)[1:-1]})", ADD

    def _shuffle(self, n: Call) -> Text:
        """TVM's shuffles have a mask before the value, and more arguments behind the lane."""
        _, tvm, op = n.op.removeprefix("tir.").rpartition("tvm_")
        args = n.args[1:4] if tvm else n.args
        return f"whet_{op}({', '.join(map(self.value, args))})", ATOM

    def _packed(self, n: Call) -> Text:
        """Four bytes as a word: the load of one, where they are."""
        word = word_of(n, self.scope.analyzer)
        if word is not None:
            return self._word(word), ATOM
        text = f"whet_pack({', '.join(self.value(a) for a in n.args)})"
        return (text, ATOM) if dt.is_uint(n.dtype) else (f"(int){text}", UNARY)

    def _word(self, first: BufferLoad) -> str:
        kind = "unsigned int" if dt.is_uint(first.dtype) else "int"
        return (
            f"whet_load<{kind}>({self.scope.pointer(first.buffer)}, {self.index(first.indices[0])})"
        )

    def _dot_product(self, n: Call) -> Text:
        first, second, total = n.args
        kind = "unsigned int" if dt.is_uint(first.dtype) else "int"
        words = [
            self._word(x) if isinstance(x, BufferLoad) and dt.bits(x.dtype) == 8 else self.value(x)
            for x in (first, second)
        ]
        same = dt.is_uint(first.dtype) == dt.is_uint(total.dtype)
        held = self.value(total) if same else f"({kind}){self.value(total, UNARY)}"
        return f"whet_dp4a({', '.join([*words, held])})", ATOM

    def _extern_argument(self, a: PrimExpr) -> str:
        if isinstance(a, BufferView):
            return f"{self.scope.pointer(a.buffer)} + {self.index(a.offset, MUL)}"
        return self.value(a)

    def check(self, n: AssertStmt) -> None:
        """An assertion that does not hold ends the kernel with an error of the device."""
        self.expressions.begin(n.condition)
        test = self.value(Not(n.condition))
        message = comment_text(n.message).replace("\\", "\\\\").replace('"', '\\"')
        self.line(f'if ({test}) whet_trap({self.asserts}, "{message}");')
        self.asserts += 1
        self.statements.statement(n.body)

    # memory

    def allocate(self, n: Allocate) -> None:
        b, scope = n.buffer, n.buffer.storage_scope
        if not scope.startswith("shared") and scope not in ("local", "global", ""):
            raise CodegenError(
                f"CUDA code for {self.name}: the buffer {b.name}",
                f"there is no memory of the scope {scope!r}",
                "scopes: local, shared; run the passes of build before: "
                "whet.compiler.passes.run_build_passes",
            )
        name = self.names.new(b)
        kind, shape = self.d.memory_type(b.dtype), shape_text(b)
        if scope.startswith("shared"):
            place = f"{self._offset_of(b)}, {self._elements(b)}"
            self.line(f"WHET_SHARED_BUFFER({kind}, {name}, {place});  // {shape}")
        else:
            self.line(f"WHET_LOCAL({kind}, {name}, {self._constant_elements(b)});  // {shape}")
        self.scope.place(b, name)
        self.statements.statement(n.body)

    def _elements(self, b: Buffer) -> str:
        """The number of elements of a shared buffer, also where an argument gives it."""
        if not all(map(self._is_known, b.shape)):
            return str(self._constant_elements(b))
        return self.index(reduce(ops.multiply, b.shape, ops.const(1)))

    def _constant_elements(self, b: Buffer) -> int:
        count = count_of(b.shape)
        if count is None:
            raise CodegenError(
                f"CUDA code for {self.name}: the {b.storage_scope} buffer {b.name}",
                "its size is not known when the code is made",
                "compute its stage at a loop, where its extents are numbers",
            )
        return max(count, 1)

    def _offset_of(self, b: Buffer) -> str:
        offset = self.offsets.get(id(b))
        if offset is None:
            raise CodegenError(
                f"CUDA code for {self.name}: the shared buffer {b.name}",
                "it has no place in shared memory",
                "run the passes of build before: whet.compiler.passes.run_build_passes",
            )
        return self.index(offset)

    def constants(self, n: AllocateConst) -> None:
        """Write a buffer of constants before the kernel."""
        b, name = n.buffer, f"{self.name}_const{len(self.globals)}"
        kind, array = self.d.memory_type(b.dtype), initializer(b, n.data, self.d)
        short = b.dtype in SHORT_FLOATS
        self.globals.append(
            f"static __device__ const __align__(16) {'unsigned short' if short else kind} "
            f"{name}{array};"
        )
        self.scope.place(b, f"((const {kind} *){name})" if short else name)
        self.statements.statement(n.body)


def _needs_long(func: PrimFunc) -> bool:
    """True if a subscript or what guards it may not fit into 32 bits."""
    counts = [count_of(p.shape) for p in func.params if isinstance(p, Buffer)]
    if None in counts:
        return True
    largest = max((n for n in counts if n is not None), default=0)
    # tiles go beyond an array, if by far less than its own size
    return largest >= (1 << 31) - (1 << 20) or (largest >= 1 << 27 and _goes_beyond(func.body))


def _goes_beyond(body: Stmt) -> bool:
    """True if the padded extents of loops and threads make a number of more than 32 bits."""
    ends = {n.var: ops.add(n.min, n.extent) for n in nodes_of(body, For)}
    ends |= {n.node: n.value for n in nodes_of(body, AttrStmt) if n.key == "thread_extent"}
    accesses = nodes_of(body, BufferLoad, BufferStore)
    numbers = [i.base if isinstance(i, Ramp) else i for n in accesses for i in n.indices]
    tests = [n for n in nodes_of(body, CmpOp) if n.a.dtype in ("int32", "int64")]
    numbers += [side for n in tests for side in (n.a, n.b)]
    affine = Analyzer().affine
    for form in map(affine, numbers):
        high = form.const
        for atom, factor in form.terms.values():
            end = ends.get(atom)
            if factor > 0 and isinstance(end, IntImm):
                high += factor * (end.value - 1)
        if high >= 1 << 31:
            return True
    return False
