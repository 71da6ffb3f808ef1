"""The instruction limit of memory-bound kernels: the same kernels on rows in the L1 cache.

    python benchmarks/memory_limits.py [--assembly] [--save]

A kernel's time on rows that are in the cache, times the number of rows, is what its instructions
take; a stream of its bytes is what memory takes. Neither can be beaten, and where a processor
cannot do both at once, not the longer one either. `--assembly` prints the innermost loops, and
how many instructions of which kind each has.
"""

from __future__ import annotations

import harness

import argparse
import re
from collections import Counter

import whet
from whet.bench.arguments import arrays_of, call_of
from whet.bench.cpu.limits import Instructions, Traffic

WORKS: tuple[tuple[str, str, tuple, tuple], ...] = (
    ("softmax 1024x1024", "softmax", ((1024, 1024),), ((3, 1024),)),
    ("layer_norm 4096x1024", "layer_norm", ((4096, 1024),), ((2, 1024),)),
    ("bias_gelu 4096x4096", "bias_gelu", ((4096, 4096),), ((2, 1024),)),
    ("transpose 4096x4096", "transpose", ((4096, 4096),), ((32, 64),)),
    ("sum 4096x4096 axis 0", "sum", ((4096, 4096), (0,)), ((16, 256), (0,))),
    ("sum 4096x4096 axis 1", "sum", ((4096, 4096), (1,)), ((1, 4096), (1,))),
)
"""Name, template, its arguments, and those of a size that the L1 cache holds."""
TARGET = "llvm -num_threads=1"
ROUNDS = 21
_VECTOR = re.compile(r"%(?:ymm|zmm|xmm)\d+")
_JUMP = re.compile(r"^\s*j\w+\s+(\.L\w+)")


def measured(template: str, args: tuple, small: tuple) -> dict[str, float]:
    """Seconds of the kernel, of its instructions alone, and of its bytes alone."""
    whole, part = (whet.create_task(template, args=a, target=TARGET) for a in (args, small))
    arrays = arrays_of(whole)
    traffic = Traffic(arrays, 1)
    instructions = Instructions(arrays, [(whet.build(part), arrays_of(part))])
    limits: dict[str, list[float]] = {"stream": [], "instructions": []}
    calls = {
        "kernel": call_of(whet.build(whole), arrays.values),
        "stream": lambda: limits["stream"].append(traffic.seconds(0.01)),
        "instructions": lambda: limits["instructions"].append(instructions.seconds(0.01)),
    }
    samples = harness.interleaved(calls, ROUNDS)
    least = {name: min(seconds) for name, seconds in limits.items()}
    return {"kernel": samples["kernel"].best, **least}


def innermost_loops(assembly: str) -> list[list[str]]:
    """The instructions of each loop that works on vectors and has no other loop in it."""
    lines = assembly.splitlines()
    labels = {line.split(":")[0]: k for k, line in enumerate(lines) if re.match(r"\.L\w+:", line)}
    jumps = [(k, found.group(1)) for k, line in enumerate(lines) if (found := _JUMP.match(line))]
    loops = [(labels[name], k) for k, name in jumps if labels.get(name, k) < k]
    bodies = []
    for begin, end in loops:
        if any(begin <= first and last < end for first, last in loops):
            continue
        body = [x.strip() for x in lines[begin : end + 1] if re.match(r"\t[^.]", x)]
        if any(_VECTOR.search(x) for x in body):
            bodies.append(body)
    return bodies


def show_loops(name: str, template: str, args: tuple) -> None:
    """Print a kernel's innermost loops, and what they consist of."""
    task = whet.create_task(template, args=args, target=TARGET)
    for body in innermost_loops(whet.build(task).get_source("asm")):
        kinds = Counter(x.split()[0] for x in body)
        print(f"{name}: a loop of {len(body)} instructions:", dict(kinds.most_common()))
        print("\n".join("    " + x for x in body), flush=True)


def main() -> None:
    """Print a line for each work."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--assembly", action="store_true", help="the innermost loops instead")
    options, _ = parser.parse_known_args()
    if options.assembly:
        for name, template, args, _ in WORKS:
            show_loops(name, template, args)
        return
    harness.pin()
    lines, data = [], {}
    for name, template, args, small in WORKS:
        found = measured(template, args, small)
        both = found["stream"] + found["instructions"]
        lines.append(
            f"{name:22s} {found['kernel'] * 1e6:8.0f} us; stream of its bytes "
            f"{found['stream'] * 1e6:6.0f} us ({found['stream'] / found['kernel']:.2f} of it); "
            f"its instructions {found['instructions'] * 1e6:6.0f} us "
            f"({found['instructions'] / found['kernel']:.2f}); sum of both {both * 1e6:6.0f} us"
        )
        print(lines[-1], flush=True)
        data[name] = found
    harness.report("memory_limits", lines, {"seconds": data})


if __name__ == "__main__":
    main()
