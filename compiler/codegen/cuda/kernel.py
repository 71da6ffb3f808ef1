"""From a kernel, a function over thread variables, to CUDA C text."""

from __future__ import annotations

import numpy as np

from whet.compiler.arith import Analyzer
from whet.compiler.codegen.c.functions import SHORT_FLOATS, Functions
from whet.compiler.codegen.c.indices import Text
from whet.compiler.codegen.c.kernel import comment_text
from whet.compiler.codegen.cuda.dialect import CudaDialect
from whet.compiler.codegen.cuda.dot_product import DP4A, PACK, with_dot_products, word_of
from whet.compiler.codegen.cuda.vector_code import VectorCode
from whet.compiler.errors import CodegenError
from whet.compiler.passes.gpu.inject_double_buffer import UNROLL_FACTOR
from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.ops import ops
from whet.compiler.tir.visit.rewrite import post_order_visit

_BARRIERS = {
    "shared": "__syncthreads();",
    "shared.dyn": "__syncthreads();",
    "warp": "__syncwarp();",
}
#: what moves values between the lanes of a warp; TVM's have a mask before the value
_SHUFFLES = ("warp_shuffle", "warp_shuffle_down", "warp_shuffle_up", "warp_shuffle_xor")
_COORDINATES = {"blockIdx": "b", "threadIdx": "t"}
#: the pragma that says how many blocks should fit a multiprocessor together
MIN_BLOCKS = "pragma_min_blocks_per_sm"


class CudaKernel(VectorCode):
    """One ``__global__`` function.

    Args:
        use: the functions that the text calls.
        func: the kernel; its attribute ``thread_extent`` maps tags to extents.
    """

    def __init__(self, use: Functions, func: PrimFunc) -> None:
        super().__init__(CudaDialect(_needs_long(func)), use)
        self.memory = []
        self.func = func
        self.name = str(func.attrs.get("global_symbol", "kernel"))
        self.globals: list[str] = []
        self.offsets: dict[int, e.PrimExpr] = {}  # shared buffer's id -> bytes into the arena
        self.asserts = 0
        self.min_blocks = 0

    def kernel_text(self) -> str:
        """The kernel and the constants that it needs before it."""
        written = _written(self.func.body)
        params, buffers = [], []
        for given in self.func.params:
            name = self.names.of(given)
            if isinstance(given, Buffer):
                const = "" if id(given.data) in written else "const "
                params.append(f"WHET_GLOBAL({const}{self.d.memory_type(given.dtype)}) {name}")
                self.place(given, name)
                buffers.append((given, name))
                continue
            params.append(f"{self.d.memory_type(given.dtype)} {name}")
            if given.dtype in ("int32", "int64"):
                self.integers[given] = dt.bits(given.dtype) >= self.d.index_bits
            else:
                self.values[given] = name
        for buffer, name in buffers:
            self._extent(buffer, name)
        self.statement(with_dot_products(self.func.body, self.analyzer))
        head = f'extern "C" __global__ void {self._bounds()}{self.name}('
        head += f"\n    {', '.join(params)}\n) {{"
        return "\n".join([*self.globals, head, *self.lines, "}"])

    def _extent(self, buffer: Buffer, name: str) -> None:
        """How many elements a parameter has, where its shape says so."""
        if buffer.strides or not self._is_known(buffer.elem_offset):
            return
        count = buffer.elem_offset
        for d in buffer.shape:
            if not self._is_known(d):
                return
            count = d if d is buffer.shape[0] else ops.multiply(count, d)
        self.line(f"WHET_EXTENT({name}, {self.index(ops.add(count, buffer.elem_offset))});")

    def _is_known(self, n: e.PrimExpr) -> bool:
        return isinstance(n, e.IntImm) or self.is_index(n)

    def _bounds(self) -> str:
        """What the compiler may assume of a launch."""
        count = 1
        for tag, extent in self.func.attrs.get("thread_extent", {}).items():
            if tag.startswith("threadIdx"):
                count *= extent.value if isinstance(extent, e.IntImm) else 0
        if not count:
            return ""  # not known before the launch
        blocks = f", {self.min_blocks}" if self.min_blocks else ""
        return f"__launch_bounds__({count}{blocks}) "

    # threads and barriers

    def attribute(self, n: s.AttrStmt) -> None:
        """A thread variable, a place in shared memory or a pragma; others change nothing here."""
        if n.key == "thread_extent" and isinstance(n.node, e.Var):
            self._thread(n.node)
            self.analyzer.bind_loop(n.node, e.IntImm("int32", 0), n.value)
        elif n.key == "shared_offset":
            self.offsets[id(n.node)] = n.value
        elif n.key == MIN_BLOCKS and isinstance(n.value, e.IntImm):
            self.min_blocks = n.value.value
        self.statement(n.body)

    def _thread(self, var: e.Var) -> None:
        """A variable for a coordinate of the thread or of its block."""
        place, _, axis = var.name.partition(".")
        name = self.names.set(var, self.names.fresh(f"{_COORDINATES.get(place, place)}{axis}"))
        self.line(f"const {self.d.index} {name} = {var.name};")
        self.integers[var] = True

    def before_loop(self, n: s.For) -> None:
        if n.kind == s.UNROLLED:
            self.line("#pragma unroll")
        elif n.annotations.get(UNROLL_FACTOR):
            self.line(f"#pragma unroll {n.annotations[UNROLL_FACTOR]}")

    def evaluate(self, n: e.PrimExpr) -> None:
        if isinstance(n, e.Call) and n.op.removeprefix("tir.") == "tvm_storage_sync":
            scope = n.args[0].value if n.args and isinstance(n.args[0], e.StringImm) else "shared"
            if scope not in _BARRIERS:
                raise CodegenError(
                    f"a barrier of scope {scope!r}",
                    "CUDA has none in a kernel",
                    f"scopes: {', '.join(_BARRIERS)}",
                )
            self.line(_BARRIERS[scope])
            return
        super().evaluate(n)

    def intrinsic(self, n: e.Call) -> Text | None:
        op = n.op.removeprefix("tir.")
        if op in ("call_extern", "call_pure_extern") and isinstance(n.args[0], e.StringImm):
            args = [self._extern_argument(a) for a in n.args[1:]]
            return f"{n.args[0].value}({', '.join(args)})", 15
        if op in ("address_of", "tvm_access_ptr") and isinstance(n.args[0], e.BufferLoad):
            return self._address(n.args[0].buffer, n.args[0].indices), 12
        if op in _SHUFFLES:
            return f"whet_{op}({', '.join(self.value(a) for a in n.args)})", 15
        if op.removeprefix("tvm_") in _SHUFFLES:
            args = [self.value(a) for a in n.args[1:4]]
            return f"whet_{op.removeprefix('tvm_')}({', '.join(args)})", 15
        if op == DP4A:
            return self._dot_product(n), 15
        if op == PACK:
            return self._packed(n)
        return super().intrinsic(n)

    def _packed(self, n: e.Call) -> Text:
        """Four bytes as a word: the load of one, where they are."""
        word = word_of(n, self.analyzer)
        if word is not None:
            return self._word(word), 15
        text = f"whet_pack({', '.join(self.value(a) for a in n.args)})"
        return (text, 15) if dt.is_uint(n.dtype) else (f"(int){text}", 14)

    def _word(self, first: e.BufferLoad) -> str:
        kind = "unsigned int" if dt.is_uint(first.dtype) else "int"
        return f"whet_load<{kind}>({self.pointer(first.buffer)}, {self.index(first.indices[0])})"

    def _dot_product(self, n: e.Call) -> str:
        first, second, total = n.args
        kind = "unsigned int" if dt.is_uint(first.dtype) else "int"
        words = [
            self._word(x) if isinstance(x, e.BufferLoad) and _is_byte(x) else self.value(x)
            for x in (first, second)
        ]
        same = dt.is_uint(first.dtype) == dt.is_uint(total.dtype)
        held = self.value(total) if same else f"({kind}){self.value(total, 14)}"
        return f"whet_dp4a({', '.join([*words, held])})"

    def _extern_argument(self, a: e.PrimExpr) -> str:
        if isinstance(a, e.BufferView):
            return f"{self.pointer(a.buffer)} + {self.index(a.offset, 13)}"
        return self.value(a)

    def _address(self, buffer: Buffer, indices: tuple[e.PrimExpr, ...]) -> str:
        element = self.element(buffer, indices)
        pointer = self.pointer(buffer)
        return f"{pointer} + ({element.removeprefix(pointer)[1:-1]})"

    def check(self, n: s.AssertStmt) -> None:
        """An assertion that does not hold ends the kernel with an error of the device."""
        self.begin(n.condition)
        test = self.value(e.Not(n.condition))
        message = comment_text(n.message).replace("\\", "\\\\").replace('"', '\\"')
        self.line(f'if ({test}) whet_trap({self.asserts}, "{message}");')
        self.asserts += 1
        self.statement(n.body)

    # memory

    def allocate(self, n: s.Allocate) -> None:
        b, scope = n.buffer, n.buffer.storage_scope
        if not scope.startswith("shared") and scope not in ("local", "global", ""):
            raise CodegenError(
                f"CUDA code for {self.name}: the buffer {b.name}",
                f"there is no memory of the scope {scope!r}",
                "scopes: local, shared; run the passes of build before: "
                "whet.compiler.passes.run_build_passes",
            )
        name = self.names.set(b, self.names.fresh(b.name))
        kind, shape = self.d.memory_type(b.dtype), self.shape_text(b)
        if scope.startswith("shared"):
            place = f"{self._offset_of(b)}, {self._elements(b)}"
            self.line(f"WHET_SHARED_BUFFER({kind}, {name}, {place});  // {shape}")
        else:
            self.line(f"WHET_LOCAL({kind}, {name}, {self._constant_elements(b)});  // {shape}")
        self.place(b, name)
        self.statement(n.body)

    def _elements(self, b: Buffer) -> str:
        """How many elements a shared buffer has: where an argument gives its size, too."""
        count: e.PrimExpr = ops.const(1)
        for d in b.shape:
            if not self._is_known(d):
                return str(self._constant_elements(b))
            count = ops.multiply(count, d)
        return self.index(count)

    def _constant_elements(self, b: Buffer) -> int:
        count = 1
        for d in b.shape:
            if not isinstance(d, e.IntImm):
                raise CodegenError(
                    f"CUDA code for {self.name}: the {b.storage_scope} buffer {b.name}",
                    "its size is not known when the code is made",
                    "compute its stage at a loop, where its extents are numbers",
                )
            count *= d.value
        return max(count, 1)

    def _offset_of(self, b: Buffer) -> str:
        found = self.offsets.get(id(b))
        if found is None:
            raise CodegenError(
                f"CUDA code for {self.name}: the shared buffer {b.name}",
                "it has no place in shared memory",
                "run the passes of build before: whet.compiler.passes.run_build_passes",
            )
        return self.index(found)

    def constant_array(self, buffer: Buffer, data: np.ndarray) -> str:
        name = f"{self.name}_const{len(self.globals)}"
        kind = self.d.memory_type(buffer.dtype)
        array = np.ascontiguousarray(data).reshape(-1)
        short = buffer.dtype in SHORT_FLOATS
        if short:
            items = [f"0x{x:04x}" for x in array.view(np.uint16).tolist()]
        elif dt.is_float(buffer.dtype):
            items = [self.d.floating(x, buffer.dtype) for x in array.tolist()]
        else:
            items = [self.d.integer(int(x), buffer.dtype) for x in array.tolist()]
        rows = [", ".join(items[k : k + 8]) for k in range(0, len(items), 8)] or ["0"]
        body = ",\n".join(f"    {row}" for row in rows)
        self.globals.append(
            f"static __device__ const __align__(16) {'unsigned short' if short else kind} "
            f"{name}[{max(len(items), 1)}] = {{\n{body}\n}};"
        )
        return f"((const {kind} *){name})" if short else name


def _is_byte(n: e.BufferLoad) -> bool:
    """Whether a load is of the first of four bytes."""
    return dt.bits(n.dtype) == 8


def _written(body: s.Stmt) -> set[int]:
    """The memory that a kernel may write."""
    found: set[int] = set()

    def visit(n: object) -> None:
        if isinstance(n, (s.BufferStore, s.DeclBuffer, e.BufferView)):
            found.add(id(n.buffer.data))
        elif isinstance(n, e.Call) and n.op in ("address_of", "tvm_access_ptr"):
            found.add(id(n.args[0].buffer.data))  # type: ignore[attr-defined]

    post_order_visit(body, visit)
    return found


def _needs_long(func: PrimFunc) -> bool:
    """Whether a subscript or what guards it may not fit into 32 bits."""
    largest = 0
    for p in func.params:
        if isinstance(p, Buffer):
            count = 1
            for d in p.shape:
                if not isinstance(d, e.IntImm):
                    return True
                count *= d.value
            largest = max(largest, count)
    # tiles go beyond an array, if by far less than its own size
    return largest >= (1 << 31) - (1 << 20) or (largest >= 1 << 27 and _goes_beyond(func.body))


def _goes_beyond(body: s.Stmt) -> bool:
    """Whether the padded extents of loops and threads make a number of more than 32 bits."""
    ends: dict[e.PrimExpr, e.PrimExpr] = {}
    numbers: list[e.PrimExpr] = []

    def visit(n: object) -> None:
        if isinstance(n, s.AttrStmt) and n.key == "thread_extent":
            ends[n.node] = n.value
        elif isinstance(n, s.For):
            ends[n.var] = ops.add(n.min, n.extent)
        elif isinstance(n, (e.BufferLoad, s.BufferStore)):
            numbers.extend(i.base if isinstance(i, e.Ramp) else i for i in n.indices)
        elif isinstance(n, e.CmpOp) and n.a.dtype in ("int32", "int64"):
            numbers.extend((n.a, n.b))

    post_order_visit(body, visit)
    affine = Analyzer().affine
    for form in map(affine, numbers):
        high = form.const
        for atom, factor in form.terms.values():
            end = ends.get(atom)
            if factor > 0 and isinstance(end, e.IntImm):
                high += factor * (end.value - 1)
        if high >= 1 << 31:
            return True
    return False
