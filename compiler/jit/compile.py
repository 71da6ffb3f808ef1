"""LLVM text to object bytes.

The text that the generator writes already has its vectors, so that the pass list is short: SROA
turns local arrays into registers; LLVM's vectorisers never run. That takes 19 ms for the
matmul template's default at 1024, and 47 ms with the O2 pipeline.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from whet.compiler.errors import CodegenError
from whet.compiler.jit.llvm import initialize_all_targets, llvm, lock

# llvmlite's `add_<name>_pass`, in order.
PASSES = ("sroa",)


@dataclass(frozen=True, slots=True)
class Machine:
    """The processor and the system that object code is for.

    Attributes:
        target: the target's text, for messages.
        triple, cpu, features: as LLVM names them.
        abi: LLVM's name of a calling convention; ``""``: the triple's own.
        opt_level: of LLVM's code generator, 0 to 3.
        foreign: another architecture or system than this machine's.
    """

    target: str
    triple: str
    cpu: str
    features: str
    abi: str = ""
    opt_level: int = 2
    foreign: bool = False


def compile_text(ll: str, machine: Machine, passes: bool = True) -> bytes:
    """Compile LLVM text to a position-independent object file.

    Args:
        ll: the module's text.
        machine: what to compile for.
        passes: run the passes. Without them, what is on the stack stays there.

    Raises:
        CodegenError: LLVM refuses the text.
    """
    with lock:
        module, target_machine = _optimised(ll, machine, passes)
        return target_machine.emit_object(module)


def assembly(ll: str, machine: Machine) -> str:
    """The assembly text of LLVM text ``ll``, compiled as :func:`compile_text` does."""
    with lock:
        module, target_machine = _optimised(ll, machine)
        return target_machine.emit_assembly(module)


def bitcode(ll: str) -> bytes:
    """LLVM text as bitcode."""
    binding = llvm()
    return binding.parse_assembly(ll, binding.create_context()).as_bitcode()


def from_bitcode(data: bytes) -> str:
    """Bitcode as LLVM text.

    Raises:
        RuntimeError: it is none.
    """
    binding = llvm()
    return str(binding.parse_bitcode(data, binding.create_context()))


def linked(ll: str, others: Iterable[str], machine: Machine) -> str:
    """LLVM text with what other texts define, which only this module sees.

    Raises:
        RuntimeError: LLVM does not read one of them, or two define one name.
    """
    binding = llvm()
    with lock:
        layout = _target_machine(machine)
        context = binding.create_context()
        module = binding.parse_assembly(ll, context)
        own: list[str] = []
        for text in others:
            other = binding.parse_assembly(text, context)
            other.verify()
            for x in (module, other):
                x.data_layout, x.triple = str(layout.target_data), layout.triple
            parts = (*other.functions, *other.global_variables)
            own += [x.name for x in parts if not x.is_declaration and x.linkage.name == "external"]
            module.link_in(other)
        for x in (*module.functions, *module.global_variables):
            if x.name in own:
                x.linkage = "internal"
        module.verify()
        return str(module)


def _target_machine(machine: Machine) -> Any:
    if machine.foreign:
        initialize_all_targets()
    try:
        kind = llvm().Target.from_triple(machine.triple)
    except RuntimeError as error:
        raise CodegenError(machine.target, f"LLVM: {error}") from None
    # The small code model with PIC serves both loading here and linking a shared library.
    return kind.create_target_machine(
        cpu=machine.cpu,
        features=machine.features,
        opt=machine.opt_level,
        reloc="pic",
        codemodel="default",
        abiname=machine.abi,
    )


def _optimised(ll: str, machine: Machine, passes: bool = True) -> tuple[Any, Any]:
    binding = llvm()
    target_machine = _target_machine(machine)
    try:
        module = binding.parse_assembly(ll, binding.create_context())
        module.verify()
    except RuntimeError as error:
        raise CodegenError("compiling LLVM text", _located(str(error), ll)) from None
    if machine.foreign:  # passes would take this machine's layout for granted
        module.data_layout = str(target_machine.target_data)
        module.triple = target_machine.triple
    if passes and _has_local_memory(ll):
        # A builder leaves 1.5 KB when it ends (its callbacks), and serves one run: those of the
        # next would refer to what was on the stack in the one before.
        options = binding.create_pipeline_tuning_options(2)
        _passes().run(module, binding.create_pass_builder(target_machine, options))
    return module, target_machine


def _has_local_memory(ll: str) -> bool:
    """True where the passes have anything to do: they make registers of what is on the stack."""
    functions = ll.split("\ndefine ")
    return any("= alloca " in f and " optnone" not in f.partition("\n")[0] for f in functions)


@functools.cache
def _passes() -> Any:
    manager = llvm().create_new_module_pass_manager()
    for name in PASSES:
        getattr(manager, f"add_{name}_pass")()
    return manager


def inlined(ll: str, triple: str) -> Any:
    """LLVM text after its own pipeline, whose inliner compares the features of functions.

    Args:
        ll: the module's text; its functions name their processors.
        triple: for which system.
    """
    binding = llvm()
    with lock:
        initialize_all_targets()
        machine = binding.Target.from_triple(triple).create_target_machine()
        module = binding.parse_assembly(ll, binding.create_context())
        module.data_layout = str(machine.target_data)
        module.triple = machine.triple
        builder = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(1))
        builder.getModulePassManager().run(module, builder)
        return module


def _located(message: str, ll: str) -> str:
    """LLVM's message with the line it speaks of and the function that line is in."""
    message = message.strip()
    for part in message.splitlines():
        pieces = part.split(":")
        if len(pieces) > 2 and pieces[1].strip().isdigit():
            number = int(pieces[1])
            lines = ll.splitlines()[:number]
            inside = next((x for x in reversed(lines) if x.startswith("define")), "")
            return f"{message}\nin {inside.strip()}" if inside else message
    return message
