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
        absent: why no code is made for it; ``""``: it is.
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
    absent: str = ""

    def option_type(self, name: str) -> type | None:
        """The type of an option; None where the kind has no such option."""
        return self.options.get(name) or COMMON.get(name)

    def option_names(self) -> list[str]:
        """All options, in order of the alphabet."""
        return sorted({*self.options, *COMMON})

    def load_generator(self) -> Callable[..., Any]:
        """The function that generates code, imported now.

        Raises:
            TargetError: it cannot be imported, or there is none.
        """
        self.check_built()
        try:
            return imported(self.generator)
        except (ImportError, AttributeError, ValueError) as error:
            raise TargetError(
                f"code for target kind {self.name!r}",
                f"its generator {self.generator!r} cannot be imported: {error}",
            ) from error

    def check_built(self) -> None:
        """Refuse a kind that no code is made for.

        Raises:
            TargetError: it says why.
        """
        if self.absent:
            raise TargetError(f"code for target kind {self.name!r}", self.absent, kinds_text())

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


DEVICE_TYPES = {
    "cpu": 1,
    "cuda": 2,
    "opencl": 4,
    "aocl": 5,
    "vulkan": 7,
    "metal": 8,
    "rocm": 10,
    "hexagon": 14,
    "webgpu": 15,
}
"""Device -> its number in DLPack; any other one has that of an extension."""

# The kinds that TVM has and no code is made for, with TVM's options.
_GPU = {
    **dict.fromkeys(("max_num_threads", "max_threads_per_block"), int),
    **dict.fromkeys(("thread_warp_size", "max_shared_memory_per_block"), int),
}
_LLVM: Mapping[str, type] = dict.fromkeys(("mcpu", "mtriple", "mattr"), str)
_BLOCK = ("max_block_size_x", "max_block_size_y", "max_block_size_z")
_VULKAN_FLAGS = (
    *(f"supports_{kind}{bits}" for kind in ("float", "int") for bits in (8, 16, 32, 64)),
    *("supports_8bit_buffer", "supports_16bit_buffer", "supports_storage_buffer_storage_class"),
    *("supports_push_descriptor", "supports_dedicated_allocation"),
)
_VULKAN_NUMBERS = (
    *_BLOCK,
    *("supported_subgroup_operations", "max_push_constants_size", "max_uniform_buffer_range"),
    *("max_storage_buffer_range", "max_per_stage_descriptor_storage_buffer", "driver_version"),
    *("vulkan_api_version", "max_spirv_version"),
)

#: kind -> the keys that choose versions of generic functions
_ABSENT: Mapping[str, tuple[str, ...]] = {
    "aocl": ("opencl", "hls"),
    "aocl_sw_emu": ("opencl", "hls"),
    "composite": (),
    "example_target_hook": (),
    "ext_dev": (),
    "hexagon": ("hexagon", "cpu"),
    "hybrid": ("hybrid", "cpu"),
    "metal": ("metal", "gpu"),
    "nvptx": ("cuda", "gpu"),
    "opencl": ("opencl", "gpu"),
    "rocm": ("rocm", "gpu"),
    "sdaccel": ("opencl", "hls"),
    "stackvm": ("cpu",),
    "vulkan": ("vulkan", "gpu"),
    "webgpu": ("webgpu", "gpu"),
}

#: kind -> its device, by the names that devices have here
_DEVICES: Mapping[str, str] = {
    **{kind: kind for kind in _ABSENT},
    **dict.fromkeys(("composite", "example_target_hook", "hybrid", "stackvm"), "cpu"),
    **dict.fromkeys(("aocl", "aocl_sw_emu"), "aocl"),
    "nvptx": "cuda",
    "sdaccel": "opencl",
}

_OPTIONS: Mapping[str, Mapping[str, type]] = {
    "composite": {"devices": str},
    "hexagon": {**_LLVM, "llvm_options": str, "num_threads": int, "vtcm_capacity": int},
    "metal": _GPU,
    "nvptx": {**_LLVM, **_GPU},
    "opencl": {**_GPU, **dict.fromkeys(("texture_spatial_limit", "texture_depth_limit"), int)},
    "rocm": {**_LLVM, **_GPU},
    "vulkan": {
        **_GPU,
        **dict.fromkeys(_VULKAN_FLAGS, bool),
        **dict.fromkeys(_VULKAN_NUMBERS, int),
        **dict.fromkeys(("mattr", "device_type", "device_name", "driver_name"), str),
    },
    "webgpu": _GPU,
}

#: values of options that are not given
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "metal": {"max_num_threads": 256, "thread_warp_size": 16, "max_function_args": 31},
    "nvptx": {"max_num_threads": 1024, "thread_warp_size": 32},
    "opencl": {"max_num_threads": 256, "thread_warp_size": 1},
    "rocm": {"max_num_threads": 256, "thread_warp_size": 64},
    "vulkan": {"max_num_threads": 256, "thread_warp_size": 1},
    "webgpu": {"max_num_threads": 256},
}

_NO_PLAN = "Whet has no generator for it, and none is planned: a third party's is a row in `KINDS`"
_NEVER = "Whet has no generator for it, and it will not come"

#: kind -> why no code is made for it
_WHY: Mapping[str, str] = {
    **dict.fromkeys(_ABSENT, _NEVER),
    **dict.fromkeys(("metal", "opencl", "rocm", "vulkan", "webgpu"), _NO_PLAN),
    "composite": "Whet builds for one target; several are a dict of modules: build({target: mod})",
    "ext_dev": f"{_NEVER}: VTA is not part of this project",
    "hexagon": f"{_NEVER}: Hexagon is not part of this project",
    "nvptx": "Whet makes CUDA C instead: kind 'cuda'",
    "stackvm": f"{_NEVER}: 'c' needs a C compiler only, 'llvm' not even that",
}

#: kinds of TVM's that are parsed, and that no code is made for
OTHER_KINDS: Mapping[str, TargetKind] = MappingProxyType(
    {
        name: TargetKind(
            name, _DEVICES[name], keys, _OPTIONS.get(name, {}), "",
            defaults=_DEFAULTS.get(name, {}), absent=_WHY[name],
        )
        for name, keys in _ABSENT.items()
    }
)  # fmt: skip


def kinds_text() -> str:
    """The kinds that code is made for, for an error's way out."""
    return f"kinds: {', '.join(sorted(KINDS))}"


def row_of(name: str) -> TargetKind:
    """The row of a kind that there is."""
    return KINDS.get(name) or OTHER_KINDS[name]


def find_kind(request: str, name: object) -> TargetKind:
    """The row of a kind, also of one of TVM's that no code is made for.

    Raises:
        TargetError: there is none of that name.
    """
    if isinstance(name, str) and (name in KINDS or name in OTHER_KINDS):
        return row_of(name)
    raise TargetError(
        request, f"there is no target kind {name!r}", nearest(name, KINDS, 0.5) + kinds_text()
    )
