"""A function of LLVM text as it grows: types, values with operators, instructions, conversions."""
