"""How a compiled function is called: signatures, argument layouts, launch plans, artifacts."""
