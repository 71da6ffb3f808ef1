"""The loops of a template over traced sizes, as tables that stand for many configs."""
