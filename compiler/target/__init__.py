"""Targets of code: the Target value, its kinds and tags, and the facts of this machine."""

from whet.compiler.target.generic import (
    GenericFunc,
    generic_func,
    get_native_generic_func,
    override_native_generic_func,
)
from whet.compiler.target.kinds import KINDS, TargetKind
from whet.compiler.target.make import (
    adreno,
    arm_cpu,
    bifrost,
    create,
    cuda,
    hexagon,
    intel_graphics,
    list_tags,
    mali,
    micro,
    rasp,
    register_tag,
    riscv_cpu,
    rocm,
    stm32,
    vta,
)
from whet.compiler.target.target import Target

canon_target = Target.canon_target
canon_target_and_host = Target.canon_target_and_host
canon_multi_target = Target.canon_multi_target
canon_multi_target_and_host = Target.canon_multi_target_and_host
canon_target_map_and_host = Target.canon_target_map_and_host
list_kinds = Target.list_kinds
target_or_current = Target.target_or_current

__all__ = [
    "KINDS",
    "GenericFunc",
    "Target",
    "TargetKind",
    "adreno",
    "arm_cpu",
    "bifrost",
    "canon_multi_target",
    "canon_multi_target_and_host",
    "canon_target",
    "canon_target_and_host",
    "canon_target_map_and_host",
    "create",
    "cuda",
    "generic_func",
    "get_native_generic_func",
    "hexagon",
    "intel_graphics",
    "list_kinds",
    "list_tags",
    "mali",
    "micro",
    "override_native_generic_func",
    "rasp",
    "register_tag",
    "riscv_cpu",
    "rocm",
    "stm32",
    "target_or_current",
    "vta",
]
