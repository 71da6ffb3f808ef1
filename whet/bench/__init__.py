"""An operator beside its peers and the machine's limits: what `whet bench` measures and draws."""
