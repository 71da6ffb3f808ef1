"""LLVM as a library: text to object bytes, object bytes to callable addresses."""
