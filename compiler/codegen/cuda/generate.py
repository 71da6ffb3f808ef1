"""The generator of kind ``cuda``: the kernels of a lowered module as CUDA C text.

The text is made and can be read and compiled; this build of Whet does not launch it.
"""

from __future__ import annotations

from collections.abc import Iterator

from whet.compiler.codegen.c.functions import Functions
from whet.compiler.codegen.cuda.dialect import CudaDialect
from whet.compiler.codegen.cuda.kernel import CudaKernel
from whet.compiler.errors import CodegenError
from whet.compiler.passes.split_host_device import split_host_device
from whet.compiler.runtime.artifact import Artifact
from whet.compiler.signature import BufferParam, KernelSignature, ScalarParam
from whet.compiler.target import Target
from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.function import IRModule, PrimFunc
from whet.compiler.tir.printer import Printer
from whet.compiler.tir.rewrite import post_order_visit

_LIMITS = {"max_threads_per_block": 1024, "max_shared_memory_per_block": 49152}
_HEADERS = {"float16": "cuda_fp16.h", "bfloat16": "cuda_bf16.h"}


def generate(mod: IRModule, target: Target) -> Artifact:
    """The CUDA C text of a module's kernels, with no object code.

    Raises:
        CodegenError: a kernel holds what CUDA C cannot say, or more than the target has.
        LowerError: something is computed outside all threads.
    """
    target = target.canonical()
    kernels = list(kernels_of(mod))
    signatures = tuple(_signature(k) for k in kernels)
    return Artifact(b"", signatures, target.to_json(), _text(kernels, target))


def source(mod: IRModule, target: Target | None = None) -> str:
    """The CUDA C text of a lowered module.

    Raises:
        CodegenError, LowerError: as :func:`generate`.
    """
    return _text(list(kernels_of(mod)), (target or Target("cuda")).canonical())


def kernels_of(mod: IRModule) -> Iterator[PrimFunc]:
    """The kernels of a module, whether its functions are split into host and device or not."""
    for func in mod.functions.values():
        if func.attrs.get("calling_conv") == "kernel_launch":
            yield func
        elif not _is_host(func):
            yield from split_host_device(func)[1]


def _is_host(func: PrimFunc) -> bool:
    """Whether a function is the host's part that a split has left: all that it does is launch."""
    launches = False

    def visit(n: object) -> None:
        nonlocal launches
        launches = launches or (isinstance(n, e.Call) and n.op == "launch_kernel")

    post_order_visit(func.body, visit)
    return launches


def _text(kernels: list[PrimFunc], target: Target) -> str:
    if not kernels:
        raise CodegenError(
            "CUDA code",
            "there is no kernel: no loop is bound to a GPU's threads",
            "bind loops: s[...].bind(axis, te.thread_axis('threadIdx.x')); a call in an extern "
            'stage has no loops, and is the host\'s: build it for "llvm"',
        )
    limits = {name: int(target.attrs.get(name, least)) for name, least in _LIMITS.items()}
    use = Functions(CudaDialect())
    texts = [CudaKernel(use, k, limits).kernel_text() for k in kernels]
    used = {name for k in kernels for name in _types(k)}
    includes = [f"#include <{header}>" for name, header in _HEADERS.items() if name in used]
    parts = ["// Made by Whet.", "\n".join(includes), use.text(), *texts]
    return "\n\n".join(p for p in parts if p) + "\n"


def _types(func: PrimFunc) -> set[str]:
    """The element types that occur in a kernel."""
    found = {dt.element(p.dtype) for p in func.params}

    def visit(n: object) -> None:
        if isinstance(n, e.PrimExpr) and not isinstance(n, (e.Var, e.IntImm)):
            found.add(dt.element(n.dtype))
        if isinstance(n, (s.Allocate, s.AllocateConst, s.DeclBuffer, s.BufferStore)):
            found.add(n.buffer.dtype)

    post_order_visit(func.body, visit)
    return found


def _signature(func: PrimFunc) -> KernelSignature:
    """What a kernel takes; its launch is the host's business."""
    written: set[int] = set()
    post_order_visit(
        func.body,
        lambda n: written.add(id(n.buffer.data)) if isinstance(n, s.BufferStore) else None,
    )
    printer = Printer()
    params: list[BufferParam | ScalarParam] = []
    for p in func.params:
        if isinstance(p, Buffer):
            shape = tuple(d.value if isinstance(d, e.IntImm) else printer.expr(d) for d in p.shape)
            params.append(BufferParam(p.name, p.dtype, shape, id(p.data) in written))
        else:
            params.append(ScalarParam(printer.name(p), p.dtype))
    return KernelSignature(str(func.attrs.get("global_symbol", "kernel")), tuple(params))
