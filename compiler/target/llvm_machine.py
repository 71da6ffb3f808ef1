"""The LLVM machine of a target, checked before LLVM could end the process over it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whet.compiler.errors import TargetError
from whet.compiler.jit.compile import Machine
from whet.compiler.target.machine import host
from whet.compiler.target.machine.probe import check_machine
from whet.compiler.target.machine.processors import architecture_of
from whet.compiler.target.machine.systems import runs_under

if TYPE_CHECKING:
    from whet.compiler.target.target import Target


def machine_of(target: Target) -> Machine:
    """The machine of a target; what the target leaves open is filled in from this machine.

    Raises:
        TargetError: LLVM does not know the processor or one of its features.
    """
    attrs = target.canonical().attrs
    triple, abi = _with_float_abi(target, attrs["mtriple"]), str(attrs.get("mabi", ""))
    check_machine(triple, attrs["mcpu"], attrs["mattr"], abi)
    here = architecture_of(attrs["mtriple"]) == host.architecture()
    foreign = not here or not runs_under(attrs["mtriple"], host.triple())
    level = int(attrs.get("opt_level", 2))
    return Machine(str(target), triple, attrs["mcpu"], attrs["mattr"], abi, level, foreign)


def _with_float_abi(target: Target, triple: str) -> str:
    """The triple, whose last part says for 32-bit ARM where floats are passed."""
    abi = target.attrs.get("mfloat_abi")
    if abi is None:
        return triple
    if architecture_of(triple) == "arm":
        soft = triple.replace("eabihf", "eabi")
        return soft.replace("eabi", "eabihf") if abi == "hard" else soft
    if abi == "soft":
        raise TargetError(
            f"{target}", f"{triple} passes floats in registers only", "leave mfloat-abi out"
        )
    return triple
