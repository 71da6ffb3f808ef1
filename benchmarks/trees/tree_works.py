"""A worker of `../two_trees.py`: the whet of one tree does works by name and answers seconds.

It reads a line of JSON for each order and writes one for each answer. Works use public
names of whet alone, so that they mean the same in every tree. Seconds are processor time, because
other processes share the machine: of this thread, for a search of its child processes, too.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(HERE), str(HERE / "cpu_kernels"), str(HERE / "search")]

import argparse
import hashlib
import importlib.util
import json
import os
import tempfile
import time
import timeit
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

ONE_CORE = "llvm -num_threads=1"
MOMENT = 0.004
"""Seconds of one sample, of which the best of three counts."""
LONG = 0.02
"""Seconds from which on a call is a sample, and the only one."""
CALLS = 5000
"""Calls of one sample of what a call costs."""
DRAWN = np.random.default_rng(0).standard_normal(1 << 20, dtype=np.float32)


@dataclass
class Answer:
    """The answer to one order.

    Attributes:
        seconds: of the work, done once.
        result: a digest of a program's text, or of the costs of a search.
        quality: a search's best cost over its goal.
    """

    seconds: float
    result: str = ""
    quality: float | None = None


Work = Callable[[int], Answer]
"""A work of a round; the number of the round is the seed of what is drawn."""


def digest(*parts: object) -> str:
    """A short name of some texts."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:16]


def best_of(call: Callable[[], object]) -> float:
    """Processor seconds of a call: the best of some samples, each of many calls if it is quick."""
    begin = time.thread_time()
    call()
    once = max(time.thread_time() - begin, 1e-9)
    number, samples = (1, 1) if once > LONG else (max(1, int(MOMENT / once)), 3)
    best = float("inf")
    for _ in range(samples):
        begin = time.thread_time()
        for _ in range(number):
            call()
        best = min(best, (time.thread_time() - begin) / number)
    return best


# kernels


def aligned(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    """Random numbers in an array that begins with a line of the cache; 0 of an integer dtype."""
    size = int(np.prod(shape))
    if dtype != "float32":
        return np.zeros(shape, dtype)
    room = np.empty(size + 16, np.float32)
    begin = -(room.ctypes.data // 4) % 16
    flat = room[begin : begin + size]
    for start in range(0, size, DRAWN.size):
        part = flat[start : start + DRAWN.size]
        part[...] = DRAWN[: part.size]
    return flat.reshape(shape)


def kernel_work(template: str, args: tuple) -> Work:
    """A call of the kernel of a template's default config, on arrays that are new each time."""
    import whet

    task = whet.create_task(template, args=args, target=ONE_CORE)
    kernel = whet.build(task)
    forms = [(tuple(map(int, t.shape)), str(t.dtype)) for t in task.instantiate()[1]]
    text = digest(kernel.get_source("ll"))
    packed = "float32" in args and args[-1] is True  # weights are packed ahead

    def work(number: int) -> Answer:
        data, *weights, out = (aligned(*form) for form in forms)
        if packed:
            weights[0] = kernel.pack_weights(weights[0])
        return Answer(best_of(lambda: kernel(data, *weights, out)), text)

    return work


def cpu_kernels() -> Iterator[tuple[str, Callable[[], Work]]]:
    """The works of `cpu_kernels/run.py` that have a template, default configs."""
    from works import KINDS

    for kind, works in KINDS.items():
        for one in works:
            if one.template:
                yield f"{kind}: {one.name}", lambda one=one: kernel_work(one.template, one.args)


def gemms() -> Iterator[tuple[str, Callable[[], Work]]]:
    """GEMMs that are drawn, and those that were slow; default configs."""
    from gemm_draws import NAMED, drawn

    works = {**NAMED, **drawn(40), **drawn(24, seed=1)}  # the last: of no fit
    for name, (template, args) in works.items():
        yield name, lambda template=template, args=args: kernel_work(template, args)


# calls


def added(symbolic: bool) -> Any:
    """A kernel that adds two arrays of 16 floats, or of any number of them."""
    import whet
    from whet import te

    n = te.size_var("n") if symbolic else 16
    A = te.placeholder((n,), name="A")
    B = te.placeholder((n,), name="B")
    C = te.compute((n,), lambda i: A[i] + B[i], name="C")
    s = te.create_schedule(C.op)
    if not symbolic:
        s[C].vectorize(s[C].op.axis[0])
    return whet.build(s, [A, B, C], ONE_CORE)


def call_work(symbolic: bool, array: Callable[[np.ndarray], Any]) -> Work:
    """A call with three arrays of 16 floats."""
    kernel = added(symbolic)
    arrays = {name: array(np.ones(16, "float32")) for name in "abc"}
    clock = timeit.Timer("f(a, b, c)", timer=time.thread_time, globals=arrays | {"f": kernel})
    text = digest(kernel.get_source("ll"))
    return lambda number: Answer(min(clock.repeat(5, CALLS)) / CALLS, text)


def call_overhead() -> Iterator[tuple[str, Callable[[], Work]]]:
    """The calls of `call_overhead.py`."""
    import whet

    yield "n = 16", lambda: call_work(False, np.asarray)
    yield "symbolic n", lambda: call_work(True, np.asarray)
    yield "whet.nd arrays", lambda: call_work(False, whet.nd.array)
    if importlib.util.find_spec("torch"):
        import torch

        torch.set_num_threads(1)
        yield "PyTorch tensors", lambda: call_work(False, torch.from_numpy)


# compiling


def compile_work(make: Callable[[], tuple], build: bool) -> Work:
    """Lowering or building a schedule that is new each time."""
    import whet

    target = whet.Target(ONE_CORE)

    def work(number: int) -> Answer:
        schedule, args = make()
        begin = time.thread_time()
        program = whet.build(schedule, args, target) if build else whet.lower(schedule, args)
        seconds = time.thread_time() - begin
        return Answer(seconds, digest(program.get_source("ll") if build else program))

    return work


def candidate(template: str, args: tuple, draw: int) -> Callable[[], tuple]:
    """The schedule of a config: the default one, or one that is drawn."""
    import whet

    task = whet.create_task(template, args=args, target=ONE_CORE)
    space = task.config_space
    config = space.sample(np.random.default_rng(draw)) if draw else space.default
    return lambda: task.instantiate(config)


def compile_time() -> Iterator[tuple[str, Callable[[], Work]]]:
    """Graphs, and candidates of templates: those of `compile_time.py`."""
    from programs import chain, graph

    conv = (1, 64, 56, 56, 64, 3, 3, 1, 1)
    makes: dict[str, Callable[[], Callable[[], tuple]]] = {
        "graph of 40 stages, 131x131": lambda: lambda: graph(131),
        "320 inlined stages": lambda: lambda: chain(320),
        "matmul 1001^3": lambda: candidate("matmul", (1001, 1001, 1001), 0),
        "matmul 1001^3, drawn": lambda: candidate("matmul", (1001, 1001, 1001), 1),
        "conv2d 64x56x56": lambda: candidate("conv2d_nchw", conv, 0),
        "conv2d 64x56x56, drawn": lambda: candidate("conv2d_nchw", conv, 1),
        "layer_norm 512x768": lambda: candidate("layer_norm", ((512, 768),), 0),
        "softmax 512x768": lambda: candidate("softmax", ((512, 768),), 0),
    }
    for name, make in makes.items():
        for build in (False, True):
            verb = "build" if build else "lower"
            yield f"{verb} {name}", lambda make=make, build=build: compile_work(make(), build)


# searches


def search_work(space: str, sampler: str, trials: int) -> Work:
    """A search over a recorded space, where measuring is a look-up."""
    import whet
    from recordings import read

    recording = read(space)

    def work(number: int) -> Answer:
        with tempfile.TemporaryDirectory() as folder:
            begin = processor_seconds()
            result = whet.tune(
                recording.task, trials=trials, log=Path(folder) / "log.db", sampler=sampler,
                workers=recording.pool(), seed=number, progress=False,
            )  # fmt: skip
            seconds = processor_seconds() - begin
        costs = [t.cost for t in result.trials if t.result.ok]
        return Answer(seconds, digest(*costs), min(costs) / recording.goal)

    return work


def replay() -> Iterator[tuple[str, Callable[[], Work]]]:
    """Searches of `search/replay.py`, each of a few trials."""
    for space, sampler, trials in (
        ("softmax", "xgb", 48),
        ("conv2d_1x1", "gp", 32),
        ("matmul_square", "tpe", 48),
        ("depthwise_3x3", "genetic", 64),
    ):
        name = f"{space}, {sampler}, {trials} trials"
        yield name, lambda job=(space, sampler, trials): search_work(*job)


def processor_seconds() -> float:
    """Processor time of this process and of all below it, finished ones included."""
    parents, spent = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        pid = int(folder.name)
        parents[pid] = int(fields[1])
        spent[pid] = sum(map(int, fields[11:15]))  # its own, and that of children that ended
    own = os.getpid()
    family, waiting = 0, [own]
    while waiting:
        one = waiting.pop()
        family += spent.get(one, 0) if one != own else 0
        waiting += [pid for pid, parent in parents.items() if parent == one]
    ended = os.times()
    return time.process_time() + ended.children_user + ended.children_system + family / ticks()


def ticks() -> int:
    """Ticks of the system's clock in a second."""
    return int(os.sysconf("SC_CLK_TCK"))


SUITES: dict[str, Callable[[], Iterator[tuple[str, Callable[[], Work]]]]] = {
    "call_overhead": call_overhead,
    "compile_time": compile_time,
    "cpu_kernels": cpu_kernels,
    "gemms": gemms,
    "replay": replay,
}


def main() -> None:
    """Follow orders until there are none: {"suite", "work", "number"}; no work: list them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tree", type=Path, help="whose whet this is")
    tree = parser.parse_args().tree.resolve()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    import whet

    if tree not in Path(whet.__file__ or "/").resolve().parents:
        raise SystemExit(f"{whet.__file__} is not of {tree}")
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    ready: dict[tuple[str, str], Work] = {}
    for line in sys.stdin:
        order = json.loads(line)
        makes = dict(SUITES[order["suite"]]())
        key = order["suite"], order["work"]
        if order["work"] is None:
            answer: Any = list(makes)
        else:
            if key not in ready:
                ready[key] = makes[order["work"]]()
                ready[key](0)
            answer = vars(ready[key](order["number"]))
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
