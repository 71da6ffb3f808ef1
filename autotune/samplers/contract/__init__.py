"""The contract of a sampler: the base class, the history that it may know, planned batches."""
