"""The generator of kind ``cuda``: the kernels of a module as CUDA C text."""

from __future__ import annotations

from collections.abc import Iterator

from whet.compiler.abi.artifact import Artifact
from whet.compiler.abi.extent_expr import from_expr
from whet.compiler.abi.signature import BufferParam, KernelSignature, ScalarParam
from whet.compiler.codegen.c.functions import Functions
from whet.compiler.codegen.cuda.dialect import CudaDialect
from whet.compiler.codegen.cuda.kernel import CudaKernel
from whet.compiler.errors import CodegenError
from whet.compiler.target import Target
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.function import IRModule, PrimFunc
from whet.compiler.tir.printer import Printer
from whet.compiler.tir.stmt import BufferStore
from whet.compiler.tir.visit.rewrite import nodes_of

_HEAD = "// Made by Whet. Behind its prelude this is CUDA C: whet.compiler.codegen.cuda.prelude"


def generate(mod: IRModule, target: Target) -> Artifact:
    """The CUDA C text of a module's kernels, with no machine code: a device's is made for it.

    Raises:
        CodegenError: a kernel holds what CUDA C cannot say.
        LowerError: something is computed outside all threads, or takes more than the target has.
    """
    target = target.canonical()
    kernels = list(kernels_of(mod, target))
    text, scattered = _text(kernels)
    return Artifact(
        b"", tuple(map(_signature, kernels)), target.to_json(), text, scattered=scattered
    )


def source(mod: IRModule, target: Target | None = None) -> str:
    """The CUDA C text of a lowered module.

    Raises:
        CodegenError, LowerError: as :func:`generate`.
    """
    return _text(list(kernels_of(mod, (target or Target("cuda")).canonical())))[0]


def kernels_of(mod: IRModule, target: Target) -> Iterator[PrimFunc]:
    """The kernels of a module; one without kernels goes through the passes of ``build`` first."""
    from whet.compiler.passes import run_build_passes

    if not any(map(_is_kernel, mod.functions.values())):
        mod = run_build_passes(mod, target)
    return (f for f in mod.functions.values() if _is_kernel(f))


def _is_kernel(func: PrimFunc) -> bool:
    return func.attrs.get("calling_conv") == "kernel_launch"


def _text(kernels: list[PrimFunc]) -> tuple[str, tuple[str, ...]]:
    """The kernels' text, and the vectors that go one by one."""
    if not kernels:
        raise CodegenError(
            "CUDA code",
            "there is no kernel: no loop is bound to a GPU's threads",
            "bind loops: s[...].bind(axis, te.thread_axis('threadIdx.x')); a call in an extern "
            'stage has no loops, and is the host\'s: build it for "llvm"',
        )
    use = Functions(CudaDialect())
    writers = [CudaKernel(use, k, _signature(k)) for k in kernels]
    texts = [writer.kernel_text() for writer in writers]
    found = set().union(*(writer.vectors.scattered for writer in writers))
    text = "\n\n".join(p for p in (_HEAD, use.text(), *texts) if p) + "\n"
    return text, tuple(sorted(found))


def _signature(func: PrimFunc) -> KernelSignature:
    """The parameters of a kernel; its launch is the host's business."""
    written = {id(n.buffer.data) for n in nodes_of(func.body, BufferStore)}
    printer = Printer()
    params: list[BufferParam | ScalarParam] = []
    for p in func.params:
        if isinstance(p, Buffer):
            shape = tuple(from_expr(d, printer.name) for d in p.shape)
            params.append(BufferParam(p.name, p.dtype, shape, id(p.data) in written))
        else:
            params.append(ScalarParam(printer.name(p), p.dtype))
    return KernelSignature(str(func.attrs.get("global_symbol", "kernel")), tuple(params))
