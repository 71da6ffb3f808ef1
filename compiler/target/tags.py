"""Tags: names of machines that stand for a whole target, e.g. ``nvidia/nvidia-a100``.

A row is data; ``whet.target.register_tag`` adds one at run time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whet.compiler.errors import TargetError
from whet.compiler.target.gpu_limits import limits_of

# Compute capability of each board: https://developer.nvidia.com/cuda-gpus and .../cuda-legacy-gpus
_BOARDS: dict[str, str] = {
    "sm_60": "nvidia/tesla-p100 nvidia/quadro-gp100",
    "sm_61": (
        "nvidia/tesla-p4 nvidia/tesla-p40 nvidia/nvidia-titan-x nvidia/nvidia-titan-xp "
        "nvidia/geforce-gtx-1080-ti nvidia/geforce-gtx-1080 nvidia/geforce-gtx-1070-ti "
        "nvidia/geforce-gtx-1070 nvidia/geforce-gtx-1060 nvidia/geforce-gtx-1050"
    ),
    "sm_70": "nvidia/tesla-v100 nvidia/nvidia-v100 nvidia/nvidia-titan-v nvidia/quadro-gv100",
    "sm_72": "nvidia/jetson-agx-xavier nvidia/jetson-xavier-nx",
    "sm_75": (
        "nvidia/tesla-t4 nvidia/nvidia-t4 nvidia/nvidia-titan-rtx nvidia/geforce-rtx-2080-ti "
        "nvidia/geforce-rtx-2080-super nvidia/geforce-rtx-2080 nvidia/geforce-rtx-2070-super "
        "nvidia/geforce-rtx-2070 nvidia/geforce-rtx-2060-super nvidia/geforce-rtx-2060 "
        "nvidia/geforce-gtx-1660-ti nvidia/geforce-gtx-1660 nvidia/geforce-gtx-1650 "
        "nvidia/quadro-rtx-8000 nvidia/quadro-rtx-6000 nvidia/quadro-rtx-5000 "
        "nvidia/quadro-rtx-4000"
    ),
    "sm_80": "nvidia/nvidia-a100 nvidia/nvidia-a30",
    "sm_86": (
        "nvidia/nvidia-a10 nvidia/nvidia-a10g nvidia/nvidia-a16 nvidia/nvidia-a2 "
        "nvidia/nvidia-a40 nvidia/rtx-a6000 nvidia/rtx-a5000 nvidia/rtx-a4500 nvidia/rtx-a4000 "
        "nvidia/geforce-rtx-3090-ti nvidia/geforce-rtx-3090 nvidia/geforce-rtx-3080-ti "
        "nvidia/geforce-rtx-3080 nvidia/geforce-rtx-3070-ti nvidia/geforce-rtx-3070 "
        "nvidia/geforce-rtx-3060-ti nvidia/geforce-rtx-3060 nvidia/geforce-rtx-3050"
    ),
    "sm_87": "nvidia/jetson-agx-orin nvidia/jetson-orin-nx nvidia/jetson-orin-nano",
    "sm_89": (
        "nvidia/nvidia-l4 nvidia/nvidia-l40 nvidia/nvidia-l40s nvidia/rtx-6000-ada "
        "nvidia/geforce-rtx-4090 nvidia/geforce-rtx-4080-super nvidia/geforce-rtx-4080 "
        "nvidia/geforce-rtx-4070-ti-super nvidia/geforce-rtx-4070-ti "
        "nvidia/geforce-rtx-4070-super nvidia/geforce-rtx-4070 nvidia/geforce-rtx-4060-ti "
        "nvidia/geforce-rtx-4060 nvidia/geforce-rtx-4050"
    ),
    "sm_90": "nvidia/nvidia-h100 nvidia/nvidia-h200 nvidia/nvidia-gh200",
}

# MiB of L2 cache, from NVIDIA's architecture white papers (Volta, Turing, Ampere, Hopper, Ada).
_L2: dict[str, float] = {
    "nvidia/tesla-v100": 6,
    "nvidia/nvidia-v100": 6,
    "nvidia/tesla-t4": 4,
    "nvidia/nvidia-t4": 4,
    "nvidia/geforce-rtx-2080-ti": 5.5,
    "nvidia/nvidia-a100": 40,
    "nvidia/nvidia-a10": 6,
    "nvidia/nvidia-a40": 6,
    "nvidia/geforce-rtx-3090": 6,
    "nvidia/geforce-rtx-3090-ti": 6,
    "nvidia/nvidia-h100": 50,
    "nvidia/nvidia-h200": 50,
    "nvidia/nvidia-l4": 48,
    "nvidia/nvidia-l40": 96,
    "nvidia/nvidia-l40s": 96,
    "nvidia/geforce-rtx-4090": 72,
}
# One core family a row: triple -> tag -> LLVM's name of the processor.
_CPUS: dict[str, dict[str, str]] = {
    "x86_64-linux-gnu": {
        "aws/cpu/c5": "skylake-avx512",
        "aws/cpu/c5.12xlarge": "cascadelake",
        "aws/cpu/c5.24xlarge": "cascadelake",
        "aws/cpu/c6i": "icelake-server",
        "aws/cpu/c6a": "znver3",
        "aws/cpu/c7i": "sapphirerapids",
        "intel/haswell": "haswell",
        "intel/skylake": "skylake",
        "intel/skylake-avx512": "skylake-avx512",
        "intel/cascadelake": "cascadelake",
        "intel/icelake-server": "icelake-server",
        "intel/sapphirerapids": "sapphirerapids",
        "intel/alderlake": "alderlake",
        "amd/zen2": "znver2",
        "amd/zen3": "znver3",
        "amd/zen4": "znver4",
        "amd/zen5": "znver5",
    },
    "aarch64-linux-gnu": {
        "aws/cpu/c7g": "neoverse-v1",
        "aws/graviton2": "neoverse-n1",
        "aws/graviton3": "neoverse-v1",
        "aws/graviton4": "neoverse-v2",
        "nvidia/grace": "neoverse-v2",
        # https://www.raspberrypi.com/documentation/computers/processors.html
        "raspberry-pi/3b-aarch64": "cortex-a53",
        "raspberry-pi/4b-aarch64": "cortex-a72",
        "raspberry-pi/5-aarch64": "cortex-a76",
    },
    "arm64-apple-macos": {"apple/m1": "apple-m1", "apple/m2": "apple-m2"},
    "riscv64-linux-gnu": {"sifive/u74": "sifive-u74"},
}
# Physical cores, where the tag tells them.
_CORES: dict[str, int] = {
    "aws/cpu/c5.12xlarge": 24,
    "aws/cpu/c5.24xlarge": 48,
    "raspberry-pi/3b-aarch64": 4,
    "raspberry-pi/4b-aarch64": 4,
    "raspberry-pi/5-aarch64": 4,
}
# Amazon EC2 instance types (https://aws.amazon.com/ec2/instance-types): family -> size -> physical
# cores (two hyper-threads are one core; Graviton's are cores).
_C6 = {"large": 1, "xlarge": 2, "2xlarge": 4, "4xlarge": 8, "8xlarge": 16, "16xlarge": 32}
_AWS: dict[str, dict[str, int]] = {
    "aws/cpu/c5": {
        "large": 1,
        "xlarge": 2,
        "2xlarge": 4,
        "4xlarge": 8,
        "9xlarge": 18,
        "18xlarge": 36,
    },
    "aws/cpu/c6i": _C6,
    "aws/cpu/c6a": _C6,
    "aws/cpu/c7i": _C6,
    "aws/cpu/c7g": {size: 2 * cores for size, cores in _C6.items()},
}
# NVIDIA's boards with a CPU beside the GPU: the processor that launches their kernels.
_HOSTS: dict[str, dict[str, Any]] = {
    "nvidia/jetson-agx-xavier": {"mcpu": "carmel", "num_threads": 8},
    "nvidia/jetson-agx-orin": {"mcpu": "cortex-a78ae", "num_threads": 12},
}

_registered: dict[str, dict[str, Any]] = {}


def _table() -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for arch, names in _BOARDS.items():
        limits = limits_of(arch)
        for name in names.split():
            rows[name] = {
                "kind": "cuda",
                "arch": arch,
                "max_shared_memory_per_block": limits.shared_bytes,
                "max_threads_per_block": limits.threads_block,
                "registers_per_block": limits.registers_block,
                "thread_warp_size": limits.warp_size,
            }
            if name in _L2:
                rows[name]["l2_cache_size_bytes"] = int(_L2[name] * 2**20)
            if name in _HOSTS:
                host = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", **_HOSTS[name]}
                rows[name]["host"] = host
    for triple, processors in _CPUS.items():
        architecture = triple.split("-")[0]
        family = {"x86_64": "x86", "aarch64": "arm_cpu", "arm64": "arm_cpu"}
        keys = f"{family.get(architecture, architecture)},cpu"
        for name, mcpu in processors.items():
            row = {"kind": "llvm", "keys": keys, "mtriple": triple, "mcpu": mcpu}
            if name in _AWS:
                for size, cores in _AWS[name].items():
                    rows[f"{name}.{size}"] = {**row, "num_threads": cores}
            else:
                rows[name] = {**row, "num_threads": _CORES[name]} if name in _CORES else row
    return rows


def find_tag(name: str) -> dict[str, Any] | None:
    """The config that a tag stands for, or None."""
    if "/" not in name and name not in _registered:
        return None  # every tag of the table has one: most targets are no tags
    found = _registered.get(name)
    return dict(found) if found is not None else _table().get(name)


def no_such_tag(request: str, name: str) -> TargetError:
    """The error for a text with a slash that is no tag: with those spelt alike, or its family.

    Args:
        request: the request.
        name: the text.
    """
    import difflib

    known = tag_names()
    close = difflib.get_close_matches(name, known, 3, 0.7)
    family = [tag for tag in known if tag.partition("/")[0] == name.partition("/")[0]]
    if close:
        way_out = f"did you mean {' or '.join(map(repr, close))}? "
    else:
        way_out = f"tags: {', '.join(family)}\n" if family else ""
    return TargetError(
        request,
        f"there is no tag {name!r}",
        f'{way_out}whet.target.list_tags() has all; or name the target: "cuda -arch=sm_90"',
    )


def tag_names() -> list[str]:
    """Every tag, in order of the alphabet."""
    return sorted({*_table(), *_registered})


def add_tag(name: str, config: Mapping[str, Any]) -> None:
    """Let a name stand for a target, in the place of any other."""
    _registered[name] = dict(config)
