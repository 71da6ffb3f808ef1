"""What code is made for: the Target value, and the facts of the machine this process runs on."""

from whet.compiler.target.target import Target

__all__ = ["Target"]
