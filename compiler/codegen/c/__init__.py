"""Loop IR as portable C99, and what its object files offer to callers."""

from whet.compiler.codegen.c.generate import generate
from whet.compiler.codegen.c.kernel import source

__all__ = ["generate", "source"]
