"""Targets by function: ``cuda("...")``, ``arm_cpu("rasp4b")``, ...; TVM's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from whet.compiler.errors import TargetError, nearest
from whet.compiler.target.kinds import kinds_text
from whet.compiler.target.tags import add_tag, find_tag, tag_names
from whet.compiler.target.target import Target

Options = str | Sequence[str] | None

# Boards of arm_cpu and riscv_cpu; a board's processor from its maker's data sheet.
_ARM: dict[str, str] = {
    "rasp3b": "-mtriple=armv7l-linux-gnueabihf -mattr=+neon -mcpu=cortex-a53",
    "rasp4b": "-mtriple=armv8l-linux-gnueabihf -mattr=+neon -mcpu=cortex-a72",
    "rasp3b64": "-mtriple=aarch64-linux-gnu -mattr=+neon -mcpu=cortex-a53",
    "rasp4b64": "-mtriple=aarch64-linux-gnu -mattr=+neon -mcpu=cortex-a72",
    "rk3399": "-mtriple=aarch64-linux-gnu -mattr=+neon -mcpu=cortex-a72",
    "pynq": "-mtriple=armv7a-linux-gnueabihf -mattr=+neon -mcpu=cortex-a9",
    "ultra96": "-mtriple=aarch64-linux-gnu -mattr=+neon -mcpu=cortex-a53",
    "jetson-xavier": "-mtriple=aarch64-linux-gnu -mcpu=carmel",
    "m1": "-mtriple=arm64-apple-macos -mcpu=apple-m1",
}
_RISCV: dict[str, str] = {
    "sifive-u54": "-mtriple=riscv64-linux-gnu -mcpu=sifive-u54 -mabi=lp64d",
    "sifive-u74": "-mtriple=riscv64-linux-gnu -mcpu=sifive-u74 -mabi=lp64d",
}


def create(target: Any) -> Target:
    """``Target(target)``."""
    return Target(target)


def cuda(model: str = "unknown", arch: str | None = None, options: Options = None) -> Target:
    """A CUDA target.

    Args:
        model: the board's name, for people.
        arch: e.g. ``"sm_80"``.
        options: more options, a text or a list of them.
    """
    words = [f"-arch={arch}"] if arch else []
    return _make("cuda", [f"-model={model}", *words], options)


def arm_cpu(model: str = "unknown", options: Options = None) -> Target:
    """An ARM processor; ``model`` may name a board, e.g. ``"rasp4b64"``."""
    if model == "unknown":
        return _board("arm_cpu", {model: "-mtriple=aarch64-linux-gnu"}, model, options)
    return _board("arm_cpu", _ARM, model, options)


def rasp(options: Options = None) -> Target:
    """A Raspberry Pi 3B with a 32-bit system."""
    return arm_cpu("rasp3b", options)


def riscv_cpu(model: str = "sifive-u54", options: Options = None) -> Target:
    """A RISC-V processor by its name."""
    return _board("riscv_cpu", _RISCV, model, options)


def _board(device: str, boards: Mapping[str, str], model: str, options: Options) -> Target:
    """A board of a table: model -> the options of its processor."""
    if model not in boards:
        raise TargetError(
            f"{device}({model!r})",
            "the model is not known",
            f"{nearest(model, boards, 0.5)}models: {', '.join(boards)}; or write the target out",
        )
    words = [f"-keys={device},cpu", f"-device={device}", f"-model={model}", boards[model]]
    return _make("llvm", words, options)


def _make(kind: str, words: list[str], options: Options) -> Target:
    more = [options] if isinstance(options, str) else list(options or ())
    return Target(" ".join([kind, *words, *more]))


def _missing(name: str, what: str) -> Callable[..., Target]:
    def function(*args: Any, **options: Any) -> NoReturn:
        raise TargetError(
            f"target.{name}(...)", f"there is no code generator for {what}", kinds_text()
        )

    function.__name__ = name
    function.__doc__ = f"Refused: there is no code generator for {what}."
    return function


rocm = _missing("rocm", "AMD's GPUs")
mali = _missing("mali", "ARM's Mali GPUs (OpenCL)")
bifrost = _missing("bifrost", "ARM's Bifrost GPUs (OpenCL)")
intel_graphics = _missing("intel_graphics", "Intel's GPUs (OpenCL)")
adreno = _missing("adreno", "Qualcomm's Adreno GPUs (OpenCL)")
vta = _missing("vta", "the VTA accelerator")
hexagon = _missing("hexagon", "Qualcomm's Hexagon")
micro = _missing("micro", "microcontrollers")
stm32 = _missing("stm32", "microcontrollers")


def list_tags() -> dict[str, Target]:
    """Every tag with its Target."""
    return {name: Target(name) for name in tag_names()}


def register_tag(name: str, config: Mapping[str, Any], override: bool = False) -> Target:
    """Let a name stand for a target; the Target.

    Args:
        name: the tag, e.g. ``"lab/board-7"``.
        config: the target as a dict.
        override: replace a tag of that name.

    Raises:
        TargetError: the name is none, the tag exists already, or the config is no target.
    """
    request = f"register_tag({name!r})"
    if not isinstance(name, str) or not name:
        raise TargetError(request, "a tag is a name", 'e.g. "lab/board-7"')
    if not override and find_tag(name) is not None:
        raise TargetError(request, "the tag exists already", "give override=True to replace it")
    if not isinstance(config, Mapping):
        raise TargetError(request, f"a config is a dict, not {config!r}")
    Target(config)  # refuses what is no target before it has a name
    add_tag(name, config)
    return Target(name)
