"""The CPU code generator: LLVM text, object code, and the calls into it."""
