"""Seconds of ``import whet`` in a fresh process, the interpreter's own start subtracted."""

from __future__ import annotations

import harness

import statistics
import subprocess
import sys
import time


def seconds(code: str) -> float:
    """Wall time of a fresh interpreter that runs ``code``."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - start


def main() -> None:
    """Print the table."""
    codes = {
        "nothing": "pass",
        "import numpy": "import numpy",
        "import whet": "import whet",
        "import whet, and all it names": "import whet; [getattr(whet, n) for n in whet.__all__]",
    }
    found: dict[str, list[float]] = {name: [] for name in codes}
    for _ in range(21):
        for name, code in codes.items():
            found[name].append(seconds(code))
    base = statistics.median(found.pop("nothing"))
    data = {
        n: {"median": statistics.median(v) - base, "min": min(v) - base} for n, v in found.items()
    }
    lines = [f"{n}: {v['median']:.3f} s median, {v['min']:.3f} s min" for n, v in data.items()]
    harness.report("import_time", lines, {"seconds": data, "interpreter": base})


if __name__ == "__main__":
    main()
