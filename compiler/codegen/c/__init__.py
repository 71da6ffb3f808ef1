"""Loop IR as portable C99, and what its object files offer to callers."""

from whet.compiler.codegen.c.generate import generate, source

__all__ = ["generate", "source"]
