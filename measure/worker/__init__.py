"""The worker process: supervisor, child, keeper, and the state that a candidate may change."""
