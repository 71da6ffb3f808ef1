"""Kernels by way of C99: generated, compiled with every warning an error, loaded."""

from whet.compiler import driver
from whet.compiler.codegen.asserts import complete_signature
from whet.compiler.codegen.c import source
from whet.compiler.codegen.c.compile import compile_text
from whet.compiler.runtime import Artifact, Module
from whet.compiler.target import Target

# GCC guesses of memory that loops of few steps fill that it may not be
GUESSES = ("-Wno-maybe-uninitialized",)
STRICT = ("-O1", "-Wall", "-Wextra", "-Werror", *GUESSES, "-pedantic")


def lowered(inputs, args=None, name="kernel", target="c"):
    """The lowered module of a schedule or a function."""
    with Target(target):
        return driver.lower(inputs, args, name=name)


def text_of(inputs, args=None, name="kernel", target="c"):
    """The C text of a schedule or a function."""
    return source(lowered(inputs, args, name, target))


def build_c(inputs, args=None, name="kernel", target="c", flags=STRICT):
    """A schedule or a function as a loaded kernel."""
    mod = lowered(inputs, args, name, target)
    text = source(mod)
    data = compile_text(text, flags=flags)
    signatures = tuple(complete_signature(f) for f in mod.functions.values())
    made = Artifact(data, signatures, Target(target).canonical().to_json(), text)
    return Module.from_artifact(made)
