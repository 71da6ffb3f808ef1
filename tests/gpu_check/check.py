"""Checks and times everything on a GPU, and says what passed; `scripts/gpu_check` installs first.

    python tests/gpu_check/check.py [--device cuda:0] [--minutes 8] [--out FILE.json]

Every template's kernels against numpy, default configs and configs at random; what the runtime
promises; a search; then the works that have goals, beside cuBLAS, cuDNN, Triton and the copy
bandwidth, as long as there is time. On the emulator all but the times.
"""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))

import argparse
import json
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from check_cases import DTYPES, SMALL
from check_command import Ended, ended
from check_device import environment_of, is_gpu
from check_programs import SKIPPED
from check_report import (
    SKIP,
    UNDONE,
    Failed,
    Late,
    Report,
    Short,
    Skipped,
    read_items,
    tail,
)  # fmt: skip
from check_runtime import CHECKS

from whet.compiler.target.machine.host import affinity, cpu_quota

SHARE = 0.35
"""Of the time that is left, for the kernels of all templates."""
BEGINNING = 6.0
"""Seconds of it that a process takes about until its default configs are checked."""
ALONE = ("launches", "tensors", "hung")
"""Checks of the runtime that time something, or keep the device: nothing else runs beside them."""
GRACE = 10.0
"""Seconds that what was begun may take when the time is over."""
RUNTIME = 4
"""Checks of the runtime at a time: some of them fill the device's memory."""
HOST_BYTES, GPU_BYTES = 3 << 29, 1 << 30
"""Memory that one check may take of this machine, and of the GPU: arrays, and its context."""
MEMORY = """
import ctypes, sys
cuda, device, size = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_size_t()
assert not cuda.cuInit(0) and not cuda.cuDeviceGet(ctypes.byref(device), int(sys.argv[1]))
assert not cuda.cuDeviceTotalMem_v2(ctypes.byref(size), device)
print(size.value)
"""
FIGURES = "../../benchmarks/gpu_kernels/run.py"
ROOM = 45.0
"""Seconds that the figures leave for the last of them, and for what they come to."""


def command(
    script: str,
    *arguments: str,
    device: str,
    seconds: float,
    show: Callable[[str], object] = lambda line: None,
) -> Ended:
    """Run a script of these checks, or of a benchmark.

    Args:
        script: its file, relative to this folder.
        arguments: its command line, but for the device.
        device: which it uses.
        seconds: that it may take.
        show: is given each line that it writes, as it comes.
    """
    words = [sys.executable, str(FOLDER / script), *arguments, "--device", device]
    return ended(words, seconds, environment_of(device), show)


def right(done: Ended, seconds: float, late: bool, before: str = "") -> str:
    """The output of a script that ended well.

    Args:
        done: how it ended.
        seconds: that it was given.
        late: whether these were all that was left of the time.
        before: how far it came.

    Raises:
        Late: it was not done when the time was over.
        Failed: it ended badly, or took too long.
        Skipped: it says that there is nothing to check.
    """
    so_far = f"; {before}" if before else ""
    if done.code is None:
        kind = Late if late else Failed
        raise kind(f"not done after {seconds:.0f} s{so_far}\n{tail(done.err)}")
    if done.code == SKIPPED:
        raise Skipped(tail(done.out))
    if done.code:
        raise Failed(f"ended with {done.code}: {tail(done.err, 1)}{so_far}\n{tail(done.err)}")
    return done.out.strip()


def kernels(
    template: str, dtype: str, device: str, seconds: float, left: float, draws: int | None = None
) -> str:
    """The kernels of one template and dtype.

    Args:
        template: its name.
        dtype: of the tensors.
        device: where they run.
        seconds: for configs at random.
        left: seconds of all of the time.
        draws: configs at random of a shape at most; None: as many as there is time for.
    """
    words = [template, "--dtype", dtype, "--seconds", f"{seconds:.1f}"]
    words += ["--large"] if is_gpu(device) else []
    words += ["--draws", str(draws)] if draws is not None else []
    least = 4 * seconds + 120
    given = min(least, left + GRACE)
    done = command("check_kernels.py", *words, device=device, seconds=given)
    found = last_of(done.out)
    said = f"{found['kernels']} kernels right, largest error {found['worst']:.1e}"
    if found["pruned"]:
        said += f"; {found['pruned']} configs pruned"
    if found["failed"]:
        said += "; then the device was lost" if found["lost"] else ""
        raise Failed("\n".join([f"{len(found['failed'])} wrong; {said}", *found["failed"][:10]]))
    right(done, given, given < least, said)
    if not found["kernels"]:
        raise Failed(f"no kernel ran; {said}")
    return said


def last_of(out: str) -> dict:
    """The last line of JSON that ``check_kernels.py`` has written; zeros where there is none."""
    nothing = {"kernels": 0, "worst": 0.0, "pruned": 0, "failed": [], "lost": False}
    lines = [line for line in out.splitlines() if line.startswith("{") and line.endswith("}")]
    return nothing | (json.loads(lines[-1]) if lines else {})


def runtime(name: str, device: str, left: float) -> str:
    """One thing that the runtime promises."""
    given = min(180.0, left + GRACE)
    return right(
        command("check_runtime.py", name, device=device, seconds=given), given, given < 180
    )


def figures(device: str, left: float, tuning: float, kept: Mapping[str, Path]) -> str:
    """The works that have goals, each figure beside what is to be reached.

    Args:
        device: which GPU.
        left: seconds of all of the time.
        tuning: minutes of them for a search; 0: default configs.
        kept: files for ``"--out"``, the figures, and ``"--log"``, the search.
    """
    if not is_gpu(device):
        raise Skipped("the emulator's times say nothing")
    minutes = max(left - ROOM, 1) / 60
    words = ["--short", "--rounds", "10", "--minutes", f"{minutes:.2f}"]
    words += ["--defaults", "--tuning", f"{tuning:g}"] if tuning else ["--trials", "0"]
    words += [str(word) for pair in kept.items() for word in pair]
    given = 60 * minutes + ROOM + GRACE
    done = command(
        FIGURES, *words, device=device, seconds=given,
        show=lambda line: print("      " + line, flush=True),
    )  # fmt: skip
    how = f"{tuning:g} minutes of search" if tuning else "default configs (not tuned)"
    if done.code or done.code is None:
        print(tail(done.err), file=sys.stderr, flush=True)
    # Its lines say what was reached, unless it came to an end before.
    return judged(done.out, how) if done.code == 0 else right(done, given, late=True)


def judged(out: str, how: str = "default configs (not tuned)") -> str:
    """A summary of the figures.

    Args:
        out: what ``run.py`` has said.
        how: whose figures they are.

    Raises:
        Failed: a work failed, or there are no goals at all.
        Short: a goal was not reached, or could not be judged.
    """
    lines = [line.strip() for line in out.splitlines()]
    count = {
        word: sum(line.startswith(word) for line in lines)
        for word in ("reached ", "NOT REACHED ", "not judged ", "FAILED  ", "no time for ")
    }
    reached, missed, unjudged, failed, late = count.values()
    goals = reached + missed + unjudged
    said = f"{reached} of {goals} goals reached, by {how}"
    said += f"; {missed} not reached" if missed else ""
    said += f"; {unjudged} not judged" if unjudged else ""
    said += f"; no time for {late} works" if late else ""
    if failed or not goals:
        raise Failed(f"{failed} works failed; {said}\n{tail(out)}")
    if reached < goals:
        raise Short(said)
    return said


def at_a_time(device: str) -> int:
    """How many checks may run at a time: one a core, as far as memory goes.

    Args:
        device: whose memory each of them takes a part of, where it is a GPU.
    """
    cores = len(affinity())
    cores = min(cores, int((cpu_quota() or cores) + 0.5))
    rooms = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // HOST_BYTES]
    if is_gpu(device):
        rooms.append(memory_of(device) // GPU_BYTES)
    return max(1, min(cores, *rooms))


def memory_of(device: str) -> int:
    """Bytes of a GPU's memory, asked in a process of its own, which takes the context with it."""
    number = device.partition(":")[2] or "0"
    found = ended([sys.executable, "-c", MEMORY, number], 60)
    return int(found.out) if found.code == 0 else 8 * GPU_BYTES


def side_by_side(report: Report, jobs: list[tuple[str, Callable[[], str]]], count: int) -> None:
    """Check several things at a time."""
    with ThreadPoolExecutor(max_workers=count) as pool:
        list(pool.map(lambda job: report.run(*job), jobs))


def everything(report: Report, asked: argparse.Namespace) -> None:
    """All checks, in order.

    Args:
        report: what is added to.
        asked: the command line.
    """
    device, at_once, only = asked.device, asked.jobs or at_a_time(asked.device), asked.only

    def wanted(name: str) -> bool:
        return not only or any(name.startswith(word) for word in only)

    def promise(name: str) -> str:
        return runtime(name, device, report.left)

    report.run("device", lambda: promise("device"))
    if not report.passed("device"):
        return
    promised = [name for name in CHECKS if name != "device" and wanted(f"runtime {name}")]
    for name in promised:
        if name in ALONE:
            report.run(f"runtime {name}", partial(promise, name))
    side_by_side(
        report,
        [(f"runtime {n}", partial(promise, n)) for n in promised if n not in ALONE],
        min(at_once, RUNTIME),
    )
    jobs = [(t, d) for t in SMALL for d in DTYPES if wanted(f"kernels {t}")]
    rounds = -(-len(jobs) // at_once) or 1
    share = SHARE * max(report.left - 60 * asked.tune, 0) / rounds
    seconds = max(share - BEGINNING, min(share, 1.0))
    side_by_side(
        report,
        [
            (
                f"kernels {t} {d}",
                lambda t=t, d=d: kernels(t, d, device, seconds, report.left, asked.draws),
            )
            for t, d in jobs
        ],
        at_once,
    )
    if wanted("figures"):
        kept = files_of(asked)
        report.run("figures", lambda: figures(device, report.left, asked.tune, kept))
    else:
        report.add("figures", SKIP, 0.0, "not asked for")


def files_of(asked: argparse.Namespace) -> dict[str, Path]:
    """Where the figures and the search are kept, as ``run.py`` is told."""
    found = {"--log": asked.log} if asked.log else {}
    return found | ({"--out": asked.out.with_suffix(".figures.json")} if asked.out else {})


NAMES = (
    *("install", "device", "figures"),
    *(f"runtime {name}" for name in CHECKS),
    *(f"kernels {template}" for template in SMALL),
)
"""The names that ``--only`` takes."""


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda:0", help="cuda:0, ..., cuda-emulator, stand-in")
    parser.add_argument("--minutes", type=float, default=8.0, help="for all of it")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="kernels, runtime ..")
    parser.add_argument("--jobs", type=int, help="checks at a time; as many as cores and memory do")
    parser.add_argument("--draws", type=int, help="configs at random of a shape, at most")
    parser.add_argument("--out", type=Path, help="the report as JSON, the figures beside it")
    parser.add_argument("--tune", type=float, default=0.0, metavar="MINUTES", help="of a search")
    parser.add_argument("--log", type=Path, help="keeps the search, to go on with")
    parser.add_argument("--before", type=Path, help="a report that this one continues")
    asked = parser.parse_args(arguments)
    strange = [word for word in asked.only if not any(name.startswith(word) for name in NAMES)]
    if strange:
        parser.error(f"--only {strange[0]!r}: no check begins so; these do: {', '.join(NAMES)}")
    return asked


def main() -> int:
    """Check, and say what passed; :attr:`Report.status`, and never 0 if nothing was checked."""
    asked = parsed()
    before = json.loads(asked.before.read_text()) if asked.before else {"items": []}
    report = Report(asked.minutes, read_items(before), before.get("began"), asked.out)
    everything(report, asked)
    print("\n" + "\n".join(report.summary()), flush=True)
    return report.status or (0 if report.passed("device") else UNDONE)


if __name__ == "__main__":
    sys.exit(main())
