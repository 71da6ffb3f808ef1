"""From a kernel, a function over thread variables, to CUDA C text."""

from __future__ import annotations

import numpy as np

from whet.compiler.codegen.c.functions import SHORT_FLOATS, Functions
from whet.compiler.codegen.c.indices import Text
from whet.compiler.codegen.c.kernel import comment_text
from whet.compiler.codegen.c.statements import Statements
from whet.compiler.codegen.cuda.dialect import CudaDialect
from whet.compiler.codegen.cuda.vectors import (
    MOST_BYTES,
    can_part,
    component_type,
    copy_type,
    is_aligned,
    part,
)
from whet.compiler.errors import CodegenError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.rewrite import TABLE, post_order_visit

_BARRIERS = {
    "shared": "__syncthreads();",
    "shared.dyn": "__syncthreads();",
    "warp": "__syncwarp();",
}


class CudaKernel(Statements):
    """One ``__global__`` function.

    Args:
        use: the functions that the text calls.
        func: the kernel; its attribute ``thread_extent`` maps tags to extents.
        limits: ``max_threads_per_block`` and ``max_shared_memory_per_block`` of the target.
    """

    def __init__(self, use: Functions, func: PrimFunc, limits: dict[str, int]) -> None:
        super().__init__(CudaDialect(_needs_long(func)), use)
        self.memory = []
        self.func = func
        self.limits = limits
        self.name = str(func.attrs.get("global_symbol", "kernel"))
        self.globals: list[str] = []
        self.shared_bytes = 0
        self.whole: dict[int, str] = {}  # a vector load's id -> the variable that holds it

    def kernel_text(self) -> str:
        """The kernel and the constants that it needs before it."""
        written = _written(self.func.body)
        params = []
        for given in self.func.params:
            name = self.names.of(given)
            if isinstance(given, Buffer):
                const = "" if id(given.data) in written else "const "
                params.append(f"{const}{self.d.memory_type(given.dtype)}* __restrict__ {name}")
                self.place(given, name)
                continue
            params.append(f"{self.d.memory_type(given.dtype)} {name}")
            if given.dtype in ("int32", "int64"):
                self.integers[given] = dt.bits(given.dtype) >= self.d.index_bits
            else:
                self.values[given] = name
        self.statement(self.func.body)
        self._check_shared()
        bounds = f"__launch_bounds__({self._threads()}) " if self._threads() else ""
        head = f'extern "C" __global__ void {bounds}{self.name}({", ".join(params)}) {{'
        return "\n".join([*self.globals, head, *self.lines, "}"])

    def _threads(self) -> int:
        """Threads in a block; 0 where that is not known before the launch."""
        count = 1
        for tag, extent in self.func.attrs.get("thread_extent", {}).items():
            if tag.startswith("threadIdx"):
                count *= extent.value if isinstance(extent, e.IntImm) else 0
        limit = self.limits.get("max_threads_per_block", 1024)
        if count > limit:
            raise CodegenError(
                f"CUDA code for {self.name}",
                f"a block would have {count} threads, and the target has at most {limit}",
                "split the loops that are bound to threadIdx by smaller factors",
            )
        return count

    def _check_shared(self) -> None:
        limit = self.limits.get("max_shared_memory_per_block", 49152)
        if self.shared_bytes > limit:
            raise CodegenError(
                f"CUDA code for {self.name}",
                f"a block would have {self.shared_bytes} bytes of shared memory, and the target "
                f"has {limit}",
                "share smaller tiles, or compute the shared stages further in",
            )

    # threads and barriers

    def attribute(self, n: s.AttrStmt) -> None:
        """A thread variable; other attributes change nothing here."""
        if n.key == "thread_extent" and isinstance(n.node, e.Var):
            kind = self.d.index
            self.names.set(n.node, f"(({kind}){n.node.name})")
            self.integers[n.node] = True
            self.analyzer.bind_loop(n.node, e.IntImm("int32", 0), n.value)
        self.statement(n.body)

    def before_loop(self, n: s.For) -> None:
        if n.kind == s.UNROLLED:
            self.line("#pragma unroll")

    def evaluate(self, n: e.PrimExpr) -> None:
        if isinstance(n, e.Call) and n.op.removeprefix("tir.") == "tvm_storage_sync":
            scope = n.args[0].value if n.args and isinstance(n.args[0], e.StringImm) else "shared"
            if scope not in _BARRIERS:
                raise CodegenError(f"a barrier of scope {scope!r}", "CUDA has none in a kernel")
            self.line(_BARRIERS[scope])
            return
        super().evaluate(n)

    def intrinsic(self, n: e.Call) -> Text | None:
        if n.op in ("call_extern", "call_pure_extern") and isinstance(n.args[0], e.StringImm):
            args = [self._extern_argument(a) for a in n.args[1:]]
            return f"{n.args[0].value}({', '.join(args)})", 15
        if n.op in ("address_of", "tvm_access_ptr") and isinstance(n.args[0], e.BufferLoad):
            return f"&{self.element(n.args[0].buffer, n.args[0].indices)}", 14
        return super().intrinsic(n)

    def _extern_argument(self, a: e.PrimExpr) -> str:
        if isinstance(a, e.BufferView):
            return f"{self.pointer(a.buffer)} + {self.index(a.offset, 13)}"
        return self.value(a)

    def check(self, n: s.AssertStmt) -> None:
        """An assertion that does not hold ends the kernel with an error of the device."""
        self.begin(n.condition)
        test = self.value(e.Not(n.condition))
        self.line(f"if ({test}) __trap();  // {comment_text(n.message)}")
        self.statement(n.body)

    # memory

    def allocate(self, n: s.Allocate) -> None:
        b, scope = n.buffer, n.buffer.storage_scope
        count = 1
        for d in b.shape:
            if not isinstance(d, e.IntImm):
                raise CodegenError(
                    f"CUDA code for {self.name}: the {scope} buffer {b.name}",
                    "its size is not known when the code is made",
                    "compute its stage at a loop, where its extents are numbers",
                )
            count *= d.value
        shared = scope.startswith("shared")
        if not shared and scope not in ("local", "global", ""):
            raise CodegenError(
                f"CUDA code for {self.name}: the buffer {b.name}",
                f"there is no memory of the scope {scope!r}",
                "scopes: local, shared",
            )
        self.shared_bytes += count * dt.itemsize(b.dtype) if shared else 0
        name = self.names.set(b, self.names.fresh(b.name))
        prefix = "__shared__ __align__(16) " if shared else ""
        kind = self.d.memory_type(b.dtype)
        self.line(f"{prefix}{kind} {name}[{max(count, 1)}];  // {self.shape_text(b)}")
        self.place(b, name)
        self.statement(n.body)

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
        held = "unsigned short" if short else kind
        self.globals.append(
            f"static __device__ const {held} {name}[{max(len(items), 1)}] = {{\n{body}\n}};"
        )
        return f"((const {kind} *){name})" if short else name

    # vectors

    def before_lanes(self) -> None:
        self.line("#pragma unroll")

    def store_vector(self, n: s.BufferStore, lanes: int) -> None:
        index = n.indices[0]
        chunk = min(lanes, self._chunk(n))
        if n.mask is not None or lanes % chunk or chunk & (chunk - 1):
            super().store_vector(n, lanes)
        elif chunk == lanes:
            self._store_chunk(n, lanes)
        elif self._overlaps(n) or not can_part(n.value):
            super().store_vector(n, lanes)
        else:
            for k in range(0, lanes, chunk):
                value, at = part(n.value, k, chunk), part(index, k, chunk)
                self._store_chunk(s.BufferStore(n.buffer, value, (at,)), chunk)

    def _chunk(self, n: s.BufferStore) -> int:
        """Lanes that are written at once: of a mere copy, as many as an instruction moves."""
        most = max(MOST_BYTES // dt.itemsize(n.buffer.dtype), 1)
        if isinstance(n.value, e.BufferLoad) and n.value.mask is None:
            return most
        return min(most, 2 if n.buffer.dtype in SHORT_FLOATS else 4)

    def _store_chunk(self, n: s.BufferStore, lanes: int) -> None:
        value, kind = n.value, n.buffer.dtype
        whole = is_aligned(n.buffer, n.indices[0], self.analyzer)
        if isinstance(value, e.BufferLoad) and value.mask is None and whole:
            wide = copy_type(kind, lanes)
            if wide and is_aligned(value.buffer, value.indices[0], self.analyzer):
                self.line(f"{self._at(n.buffer, n.indices, wide)} = {self._read(value, wide)};")
                return
        self._load_whole(value)
        wide = component_type(kind, lanes)
        if not whole or wide is None:
            super().store_vector(n, lanes)
        else:
            self._store_components(n, lanes, wide)
        self.whole.clear()

    def _store_components(self, n: s.BufferStore, lanes: int, wide: str) -> None:
        name = self.names.fresh("v")
        self.line(f"{wide} {name};")

        def write() -> None:
            assert isinstance(self.lane, int)
            self.line(f"{name}.{'xyzw'[self.lane]} = {self.value(n.value)};")

        self.each_lane(lanes, [n.value], write, expand=True)
        self.line(f"{self._at(n.buffer, n.indices, wide)} = {name};")

    def _load_whole(self, value: e.PrimExpr) -> None:
        """Read the vectors of a value that are read in any case, each at once."""
        for load in _unconditional_loads(value):
            lanes = dt.lanes(load.dtype)
            wide = component_type(load.buffer.dtype, lanes)
            if (
                wide
                and load.mask is None
                and is_aligned(load.buffer, load.indices[0], self.analyzer)
            ):
                name = self.names.fresh(f"{load.buffer.name}_v")
                self.line(f"const {wide} {name} = {self._read(load, wide)};")
                self.whole[id(load)] = name

    def _load(self, n: e.BufferLoad) -> Text:
        held = self.whole.get(id(n))
        if held is not None and isinstance(self.lane, int):
            return f"{held}.{'xyzw'[self.lane]}", 15
        return super()._load(n)

    def _at(self, buffer: Buffer, indices: tuple[e.PrimExpr, ...], wide: str) -> str:
        base = indices[0]
        assert isinstance(base, e.Ramp)
        return f"*({wide} *)(&{self.element(buffer, (base.base,))})"

    def _read(self, n: e.BufferLoad, wide: str) -> str:
        return self._at(n.buffer, n.indices, f"const {wide}")


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
    """Whether a subscript may not fit into 32 bits."""
    for p in func.params:
        if isinstance(p, Buffer):
            count = 1
            for d in p.shape:
                if not isinstance(d, e.IntImm):
                    return True
                count *= d.value
            if count >= 1 << 31:
                return True
    return False


def _unconditional_loads(n: e.PrimExpr) -> list[e.BufferLoad]:
    """The vector loads of a value that run whatever a condition says, each once."""
    found: dict[int, e.BufferLoad] = {}
    stack: list[e.PrimExpr] = [n]
    while stack:
        x = stack.pop()
        if isinstance(x, e.BufferLoad) and dt.lanes(x.dtype) > 1:
            found.setdefault(id(x), x)
        if isinstance(x, (e.Let, e.Shuffle)):
            continue
        if isinstance(x, e.Call) and x.op == "if_then_else":
            stack.append(x.args[0])
            continue
        stack.extend(reversed(TABLE[type(x)][0](x)))
    return list(found.values())
