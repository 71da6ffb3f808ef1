"""The rooms of the search spaces import in one direction; a space is one class."""

import ast
from pathlib import Path

from whet.search_spaces import ConfigSpace
from whet.search_spaces.space.define import DefineKnobs

ROOT = Path(__file__).parents[2] / "search_spaces"
ORDER = ("knobs", "values", "space", "template", "graph", "forms", "rules", "operators")
# rules that make GEMMs of graphs use the GPU's operators
LATER = ("rules/gpu",)


def imports(path):
    """Each room that a file imports at run time, also inside functions."""
    waiting = [ast.parse(path.read_text())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        module = node.module if isinstance(node, ast.ImportFrom) else None
        if module and module.startswith("whet.search_spaces."):
            yield module.split(".")[2]
        waiting += ast.iter_child_nodes(node)


def test_rooms_import_rooms_to_their_left():
    wrong = []
    for path in ROOT.glob("*/**/*.py"):
        place = path.relative_to(ROOT)
        if str(place).startswith(LATER):
            continue
        known = ORDER[: ORDER.index(place.parts[0]) + 1]
        wrong += [f"{place} imports {room}" for room in imports(path) if room not in known]
    assert not wrong


def test_a_space_is_one_class_on_the_interface_of_templates():
    assert ConfigSpace.__mro__[1] is DefineKnobs
    assert not ConfigSpace.__abstractmethods__
