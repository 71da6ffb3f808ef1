"""Count the repository's rooms and check the rules of the house.

    scripts/house                    sizes of the rooms, and what breaks a rule
    scripts/house --against REV      beside the sizes of a revision, in percent

Sizes are syntax-tree nodes without docstrings, characters of string constants, lines of .h, .cuh,
.c, .ll and .toml files, and bytes of data files. Ends with 1 if a rule is broken.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from house.count import Count, Size, count
from house.rules import RULES, broken
from house.tree import APART, Tree, of_folder, of_revision

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = ("nodes", "text", "lines", "data", "files")


def main() -> int:
    """Print what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", metavar="REV", help="a revision to compare the sizes with")
    options = parser.parse_args()
    tree = of_folder(ROOT)
    if options.against:
        old = of_revision(ROOT, options.against)
        print("\n".join(compared(old, count(old), count(tree))))
        print(f"\nbroken rules, {old.name} and now:")
        for rule in RULES:
            print(f"  {rule:16s} {len(broken(rule, old)):5d} {len(broken(rule, tree)):5d}")
        print()
    else:
        print("\n".join(counted(count(tree))), end="\n\n")
    return report(tree)


def report(tree: Tree) -> int:
    """Print the violations of each rule; 1 if there are any."""
    failed = 0
    for rule, check in RULES.items():
        violations = broken(rule, tree)
        failed |= bool(violations)
        held = f"broken {len(violations)} times" if violations else "holds"
        print(f"{rule}: {(check.__doc__ or '').splitlines()[0]} ({held})")
        for violation in violations.values():
            print(f"  BROKEN {violation.text}")
    return failed


def rows(counted: Count) -> Iterable[tuple[str, Size]]:
    """The sums of a count under the names of their lines."""
    yield "product", counted.product
    for top in APART:
        yield f"apart: {top}", counted.apart[top]
    yield "all", counted.together()


def counted(new: Count) -> list[str]:
    """The table of one tree."""
    lines = [f"{'':34s}" + "".join(f"{name:>10s}" for name in COLUMNS)]
    for name, size in [*sorted(new.rooms.items()), *rows(new)]:
        lines.append(f"{name:34s}" + "".join(f"{getattr(size, c):10d}" for c in COLUMNS))
    return lines


def compared(tree: Tree, old: Count, new: Count) -> list[str]:
    """The table of two trees, side by side."""
    shown = COLUMNS[:4]
    lines = [f"{'old is ' + tree.name:34.34s}" + "".join(f"{name:>27s}" for name in shown)]
    before, after = old.rooms | dict(rows(old)), new.rooms | dict(rows(new))
    rooms = sorted(old.rooms.keys() | new.rooms.keys())
    for name in [*rooms, *dict(rows(new))]:
        was, now = before.get(name, Size()), after.get(name, Size())
        cells = (_cell(getattr(was, c), getattr(now, c)) for c in shown)
        lines.append(f"{name:34s}" + "".join(f"{cell:>27s}" for cell in cells))
    return lines


def _cell(was: int, now: int) -> str:
    if was == now:
        return f"{now or '-'}"
    percent = f"{100 * (now / was - 1):+.1f} %" if was else "new"
    return f"{was} {now} {percent:>8s}"
