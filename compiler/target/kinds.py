"""The one table of target kinds: their options, their device, who generates their code.

A third party adds a kind with a row of its own::

    KINDS["mine"] = TargetKind("mine", "cpu", ("cpu",), {"mcpu": str}, "package.module:generate")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from whet.compiler.errors import TargetError, nearest
from whet.compiler.homes import imported

# What every kind understands, beside its own options. `host` is not an option: it is a target.
COMMON: Mapping[str, type] = MappingProxyType(
    {
        "keys": str,
        "device": str,
        "model": str,
        "libs": str,
        "runtime": str,
        "system_lib": bool,
        "max_function_args": int,
        "supports_integer_dot_product": bool,
    }
)


@dataclass(frozen=True)
class TargetKind:
    """A kind of target.

    Attributes:
        name: as a target's text begins.
        device: the device its code runs on: ``"cpu"`` or ``"cuda"``.
        keys: what generic functions are chosen by; a target's own keys come first.
        options: name (with ``_``) -> type: str, int, bool or float; beside those of ``COMMON``.
        generator: ``"package.module:function"``, imported when code is first made; the function
            is ``generate(mod: IRModule, target: Target) -> Artifact``.
        default_host: the kind that runs the host's part, ``""`` where the target is the host.
        defaults: values of options that are not given, asked for as the target's properties.
        tools: other functions of its code, name -> ``"package.module:function"``, imported as the
            generator is.
        has_threads: whether its kernels are loops that are bound to a GPU's threads: ``build``
            binds what a schedule leaves unbound, and hands the generator the kernels alone.
    """

    name: str
    device: str
    keys: tuple[str, ...]
    options: Mapping[str, type]
    generator: str
    default_host: str = ""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    has_threads: bool = False
    tools: Mapping[str, str] = field(default_factory=dict)

    def option_type(self, name: str) -> type | None:
        """The type of an option; None where the kind has no such option."""
        return self.options.get(name) or COMMON.get(name)

    def option_names(self) -> list[str]:
        """All options, in order of the alphabet."""
        return sorted({*self.options, *COMMON})

    def load_generator(self) -> Callable[..., Any]:
        """The function that generates code, imported now.

        Raises:
            TargetError: it cannot be imported.
        """
        try:
            return imported(self.generator)
        except (ImportError, AttributeError, ValueError) as error:
            raise TargetError(
                f"code for target kind {self.name!r}",
                f"its generator {self.generator!r} cannot be imported: {error}",
            ) from error

    def tool(self, name: str) -> Callable[..., Any]:
        """The function that ``tools`` names, imported now."""
        return imported(self.tools[name])


_CPU: dict[str, type] = {
    "mtriple": str,
    "mcpu": str,
    "mattr": str,
    "mfloat_abi": str,
    "mabi": str,
    "vector_bytes": int,
    "num_threads": int,
    "opt_level": int,
    "fast_math": bool,
    "fast_math_nnan": bool,
    "fast_math_ninf": bool,
    "fast_math_nsz": bool,
    "fast_math_arcp": bool,
    "fast_math_contract": bool,
    "fast_math_reassoc": bool,
}
_CUDA: dict[str, type] = {
    "arch": str,
    "mcpu": str,
    "max_shared_memory_per_block": int,
    "max_threads_per_block": int,
    "max_num_threads": int,
    "thread_warp_size": int,
    "registers_per_block": int,
    "l2_cache_size_bytes": int,
    "max_block_size_x": int,
    "max_block_size_y": int,
    "max_block_size_z": int,
    "multi_processor_count": int,
}

KINDS: dict[str, TargetKind] = {
    "llvm": TargetKind(
        "llvm",
        "cpu",
        ("cpu",),
        {**_CPU, "math": str},
        "whet.compiler.codegen.llvm.generate:generate",
    ),
    "c": TargetKind(
        "c", "cpu", ("cpu",), {**_CPU, "cc": str}, "whet.compiler.codegen.c.generate:generate"
    ),
    "cuda": TargetKind(
        "cuda",
        "cuda",
        ("cuda", "gpu"),
        _CUDA,
        "whet.compiler.codegen.cuda.generate:generate",
        default_host="llvm",
        defaults={"max_num_threads": 1024, "thread_warp_size": 32},
        has_threads=True,
        tools={
            "compile_ptx": "whet.compiler.codegen.cuda.nvrtc:compile_ptx",
            "compile_cubin": "whet.compiler.codegen.cuda.nvrtc:compile_cubin",
            "disassembled": "whet.compiler.codegen.cuda.disassembly:disassembled",
            "resources_of": "whet.compiler.codegen.cuda.cubin:resources_of",
        },
    ),
}


# Kinds that TVM had -> why they are not here.
_NO_PLAN = "Whet has no generator for it, and none is planned: a third party's is a row in `KINDS`"
_NEVER = "Whet has no generator for it, and it will not come"
OTHER_KINDS: Mapping[str, str] = MappingProxyType(
    {
        "aocl": _NEVER,
        "example_target_hook": _NEVER,
        "ext_dev": f"{_NEVER}: VTA is not part of this project",
        "hexagon": f"{_NEVER}: Hexagon is not part of this project",
        "hybrid": _NEVER,
        "metal": _NO_PLAN,
        "nvptx": "Whet makes CUDA C instead: kind 'cuda'",
        "opencl": _NO_PLAN,
        "rocm": _NO_PLAN,
        "sdaccel": _NEVER,
        "stackvm": f"{_NEVER}: 'c' needs a C compiler only, 'llvm' not even that",
        "vulkan": _NO_PLAN,
        "webgpu": _NO_PLAN,
    }
)


def kinds_text() -> str:
    """The kinds there are, for an error's way out."""
    return f"kinds: {', '.join(sorted(KINDS))}"


def find_kind(request: str, name: object) -> TargetKind:
    """The row of a kind.

    Raises:
        TargetError: there is none of that name.
    """
    if isinstance(name, str) and name in KINDS:
        return KINDS[name]
    if isinstance(name, str) and name in OTHER_KINDS:
        raise TargetError(
            request, f"there is no target kind {name!r}", f"{OTHER_KINDS[name]}\n{kinds_text()}"
        )
    raise TargetError(
        request, f"there is no target kind {name!r}", nearest(name, KINDS, 0.5) + kinds_text()
    )
