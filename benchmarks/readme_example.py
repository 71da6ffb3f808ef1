"""README's first example as it stands there: tuned against its default config and the FMA peak."""

from __future__ import annotations

import harness

import re
import runpy
import statistics
import tempfile
import time
from pathlib import Path

import whet
from whet.compiler.target.machine import host

ROUNDS = 25
ROOT = Path(__file__).resolve().parents[1]


def example() -> str:
    """The code of README's first Python block."""
    found = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert found is not None, "README.md has no Python block"
    return found[1]


def main() -> None:
    """Run the example in an empty folder, then time both programs and the peak in turns."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "example.py")
        script.write_text(example().replace('"whet.db"', repr(str(Path(folder, "whet.db")))))
        names = runpy.run_path(str(script))
    task, arrays = names["task"], (names["a"], names["b"], names["c"])
    programs = {"default": whet.build(task), "tuned": names["f"]}
    harness.pin()
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    peaks = []
    for _ in range(ROUNDS):
        peaks.append(host.fma_peak("float32", 0.05))
        for name, program in programs.items():
            start = time.perf_counter()
            program(*arrays)
            seconds[name].append(time.perf_counter() - start)
    data = {}
    for name, found in seconds.items():
        shares = [task.flop / s / p for s, p in zip(found, peaks)]
        data[name] = {
            "ms": 1e3 * min(found),
            "of_peak": task.flop / min(found) / max(peaks),
            "of_peak_median": statistics.median(shares),
        }
    ratio = min(seconds["default"]) / min(seconds["tuned"])
    median = statistics.median(d / t for d, t in zip(seconds["default"], seconds["tuned"]))
    lines = [
        f"{name}: {found['ms']:.2f} ms, {found['of_peak']:.3f} of the FMA peak "
        f"({found['of_peak_median']:.3f} in the median)"
        for name, found in data.items()
    ]
    lines.append(f"the search was worth {ratio:.2f} x ({median:.2f} x in the median)")
    harness.report("readme_example", lines, {"programs": data, "worth": ratio})


if __name__ == "__main__":
    main()
