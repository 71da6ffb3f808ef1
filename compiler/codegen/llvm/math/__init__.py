"""Mathematical functions of float lanes as LLVM text."""
