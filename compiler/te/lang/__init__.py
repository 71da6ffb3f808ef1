"""The tensor-expression language: tensors, operations, axes, reducers, relations between loops."""
