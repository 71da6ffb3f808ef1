"""A log that an earlier version wrote, and what was built from it then.

``tests/db/data/before.db`` stays as it is: logs of users outlive the code that wrote them.
``before.json`` has the configs that it chose and digests of the programs' texts. Where generated
code is meant to change, ``python tests/db/write_log_before.py`` writes the digests anew.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from pathlib import Path
from typing import Any

import whet
from whet import te
from whet.search_spaces import get_config, template

DATA = Path(__file__).parent / "data"
LOG, LINES, FOUND = DATA / "before.db", DATA / "before.jsonl", DATA / "before.json"
CPU = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3 -num-threads=1"
SM80, SM90 = "cuda -arch=sm_80", "cuda -arch=sm_90"


@template("log_before/product")
def product(n, k, m):
    """A user's template: knobs of several kinds, a constraint, and a choice that cannot run."""
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="r")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    s = te.create_schedule(c.op)
    cfg = get_config()
    i, j = s[c].op.axis
    cfg.define_split("tile_i", i, num_outputs=2)
    cfg.define_split("tile_j", j, num_outputs=2, filter=lambda e: e.size[-1] <= 16)
    cfg.define_reorder("order", [r, "ii"], "all")
    cfg.define_knob("way", ["plain", "vectors", "broken"])
    cfg.multi_filter(lambda e: e["tile_i"].size[-1] * e["tile_j"].size[-1] <= 64)
    cfg.add_flop(2 * n * k * m)
    io, ii = cfg["tile_i"].apply(s, c, i)
    jo, ji = cfg["tile_j"].apply(s, c, j)
    s[c].reorder(io, jo, *cfg["order"].apply(s, c, [r, ii]), ji)
    if cfg["way"].val == "vectors":
        s[c].vectorize(ji)
    if cfg["way"].val == "broken":
        s[c].vectorize(io)
        s[c].split(io, factor=0)
    return s, [a, b, c]


@template("log_before/scale")
def scale(n):
    """A user's template for GPUs; 2048 threads are more than a block has."""
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 2.0, name="B")
    s = te.create_schedule(b.op)
    cfg = get_config()
    cfg.define_knob("threads", [64, 256, 2048])
    cfg.define_knob("vector", [1, 4])
    rest, lanes = s[b].split(b.op.axis[0], factor=cfg["vector"].val)
    s[b].vectorize(lanes)
    block, thread = s[b].split(rest, factor=cfg["threads"].val)
    s[b].bind(block, te.thread_axis("blockIdx.x"))
    s[b].bind(thread, te.thread_axis("threadIdx.x"))
    return s, [a, b]


def graph_task(target: str) -> Any:
    """A product with its epilogue, whose space is derived."""
    a, b = te.placeholder((20, 36), name="A"), te.placeholder((36, 28), name="B")
    k = te.reduce_axis((0, 36), name="k")
    c = te.compute((20, 28), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    d = te.compute((20, 28), lambda i, j: te.max(c[i, j], 0.0), name="D")
    return whet.create_task(outputs=[d], args=[a, b, d], target=target)


def tasks() -> dict[str, Any]:
    """The tuned tasks, by names of the digests."""
    make = whet.create_task
    epilogue = ("bias", "relu")
    return {
        "dense": make("dense", args=(16, 64, 32), target=CPU),
        "conv2d": make("conv2d_nchw", args=(1, 4, 9, 9, 8, 3, 3, 1, 1), target=CPU),
        "packed": make(
            "matmul", args=(33, 40, 24, False, False, "float32", epilogue, True), target=CPU
        ),
        "matvec": make("matvec", args=(40, 56), target=CPU),
        "softmax": make("softmax", args=((9, 33),), target=CPU),
        "sum": make("sum", args=((30, 45), 1), target=CPU),
        "graph": graph_task(CPU),
        "user": make(product, args=(12, 20, 16), target=CPU),
        "matmul for sm_80": make("matmul", args=(32, 16, 48), target=SM80),
        "softmax for sm_90": make("softmax", args=((5, 40),), target=SM90),
        "user for sm_80": make(scale, args=(4096,), target=SM80),
    }


HISTORY = {"dense", "conv2d", "packed", "matvec", "softmax", "sum", "graph"}
"""Tasks whose programs are others by now: their records are kept, and apply no more."""


def digest(text: str) -> str:
    """SHA-256 of a text's kernels: their entries may change alone. CUDA C is all kernels."""
    kernels = re.findall(r"^define i32 @\S*__raw\(.*?^\}\n", text, re.MULTILINE | re.DOTALL)
    return hashlib.sha256("".join(kernels or [text]).encode()).hexdigest()


def devices_of(log: Any) -> dict[str, Any]:
    """The devices of a log: that of the CPU's records, and that of the GPUs' by architecture."""
    found: dict[str, Any] = {}
    for run in log.runs():
        found[run.workload.key + json.dumps(run.target, sort_keys=True)] = run.device
    return found


def built_from(path: Path) -> dict[str, Any]:
    """The configs that ``build`` and ``apply_best`` take from a log, and digests of the texts."""
    found: dict[str, Any] = {}
    with whet.TuningLog(path, write=False) as log:
        devices = devices_of(log)
        for name, task in tasks().items():
            device = devices[task.workload.key + json.dumps(task.target.to_json(), sort_keys=True)]
            fmt = "cuda" if "sm_" in name else "ll"
            best = log.best_config(task.workload, task.target, task.config_space, device)
            assert (best is None) == (name in HISTORY), name
            if best is None:
                continue
            with warnings.catch_warnings(), task.target:
                warnings.simplefilter("error")
                with whet.apply_best(log, device=device):
                    schedule, args = task.template(*task.args)
                applied = whet.build(schedule, args, task.target, name="kernel").get_source(fmt)
            found[name] = {
                "task": task.key,
                "fingerprint": task.config_space.fingerprint,
                "config": best.to_json(),
                "text under apply_best": digest(applied),
                "text of build": digest(whet.build(task, log=log, device=device).get_source(fmt)),
            }
    return found


def read_from(path: Path) -> dict[str, Any]:
    """The trials of a log, as they stand in it."""
    with whet.TuningLog(path, write=False) as log:
        return {
            "broken": log.broken,
            "runs": [f"{r.workload} {r.sampler} {r.seed} {r.state}" for r in log.runs()],
            "trials": [f"{t.number} {t.config} {t.result.status}" for t in log.trials()],
            "workloads": [w.key for w in log.workloads()],
            "devices": log.devices(),
        }
