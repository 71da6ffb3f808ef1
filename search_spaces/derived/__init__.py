"""Spaces without a template: what is worth trying is read off the compute graph."""

from whet.search_spaces.derived.graph import ComputeGraph, Group, Node
from whet.search_spaces.derived.rules import Rule
from whet.search_spaces.derived.template import schedule_graph

__all__ = ["ComputeGraph", "Group", "Node", "Rule", "schedule_graph"]
