"""Lowering for one target with the verifier after each pass; text before and after one pass."""

import whet
from whet import instrument, te
from whet.compiler.passes import PassContext
from whet.compiler.target import Target

HOST = Target("llvm -mcpu=x86-64 -mattr=+avx2,+fma")


def vector_add(n=21):
    a = te.placeholder((n,), name="A")
    c = te.compute((n,), lambda i: a[i] + 1.0, name="C")
    s = te.create_schedule(c.op)
    _, inner = s[c].split(c.op.axis[0], factor=4)
    s[c].vectorize(inner)
    return s, [a, c]


def verified(**options):
    return PassContext(instruments=[instrument.VerifyEach()], **options)


def around(name, function, **options):
    """A module's text before and after one pass of lowering."""
    seen = {}

    @instrument.pass_instrument
    class Watch:
        def run_before_pass(self, mod, info):
            if info.name == f"tir.{name}":
                seen["before"] = str(mod)

        def run_after_pass(self, mod, info):
            if info.name == f"tir.{name}":
                seen["after"] = str(mod)

    with HOST, PassContext(instruments=[Watch(), instrument.VerifyEach()], **options):
        whet.lower(*function())
    return f"# before {name}\n{seen['before']}\n\n# after {name}\n{seen['after']}"


def lowered(s, args=None, **options):
    with HOST, verified(**options):
        return str(whet.lower(s, args))
