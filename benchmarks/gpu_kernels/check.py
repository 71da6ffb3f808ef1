"""Checks and times everything on a GPU, and says what passed; `scripts/gpu_check` installs first.

    python benchmarks/gpu_kernels/check.py [--device cuda:0] [--minutes 8] [--out FILE.json]

Every template's kernels against numpy, default configs and configs at random; what the runtime
promises; a search; then the works that have goals, beside cuBLAS, cuDNN, Triton and the copy
bandwidth, as long as there is time. On the emulator all but the times.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import argparse
import json
import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from check_cases import DTYPES, SMALL
from check_device import environment_of, is_gpu
from check_report import SKIP, UNDONE, Failed, Report, Short, Skipped, here, read_items, tail
from check_runtime import CHECKS, SKIPPED

SHARE = 0.35
"""Of the time that is left, for the kernels of all templates."""
ALONE = ("launches", "hung")
"""Checks of the runtime that time something, or keep the device: nothing else runs beside them."""


def command(script: str, *arguments: str, device: str, seconds: float) -> str:
    """Run one of the scripts beside this one; its output.

    Args:
        script: its file.
        arguments: its command line, but for the device.
        device: which it uses.
        seconds: that it may take.

    Raises:
        Failed: it ended badly, or took too long.
        Skipped: it says that there is nothing to check.
    """
    words = [sys.executable, str(here() / script), *arguments, "--device", device]
    environment = environment_of(device)
    try:
        done = subprocess.run(
            words, env=environment, capture_output=True, text=True, timeout=seconds
        )
    except subprocess.TimeoutExpired as late:
        said = tail((late.stderr or b"").decode(errors="replace"))
        raise Failed(f"not done after {seconds:.0f} s\n{said}") from None
    if done.returncode == SKIPPED:
        raise Skipped(tail(done.stdout))
    if done.returncode:
        said = tail(done.stderr)
        last = (said.splitlines() or [""])[-1]
        raise Failed(f"ended with {done.returncode}: {last}\n{said}")
    return done.stdout.strip()


def kernels(template: str, dtype: str, device: str, seconds: float) -> str:
    """The kernels of one template and dtype."""
    words = [template, "--dtype", dtype, "--seconds", f"{seconds:.1f}"]
    words += ["--large"] if is_gpu(device) else []
    out = command("check_kernels.py", *words, device=device, seconds=4 * seconds + 120)
    found = json.loads(out.splitlines()[-1])
    said = f"{found['kernels']} kernels right, largest error {found['worst']:.1e}"
    if found["pruned"]:
        said += f"; {found['pruned']} configs pruned"
    if found["failed"]:
        raise Failed("\n".join([f"{len(found['failed'])} wrong; {said}", *found["failed"][:10]]))
    if not found["kernels"]:
        raise Failed(f"no kernel ran; {said}")
    return said


def runtime(name: str, device: str) -> str:
    """One thing that the runtime promises."""
    return command("check_runtime.py", name, device=device, seconds=180)


def figures(device: str, minutes: float) -> str:
    """The works that have goals, each figure beside what is to be reached."""
    if not is_gpu(device):
        raise Skipped("the emulator's times say nothing")
    words = ["--short", "--trials", "0", "--rounds", "10", "--minutes", f"{minutes:.2f}"]
    out = command("run.py", *words, device=device, seconds=60 * minutes + 90)
    print("\n".join("      " + line for line in out.splitlines()), flush=True)
    return judged(out)


def judged(out: str) -> str:
    """What the figures come to.

    Args:
        out: what ``run.py`` has said.

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
    said = f"{reached} of {goals} goals reached, by default configs (not tuned)"
    said += f"; {missed} not reached" if missed else ""
    said += f"; {unjudged} not judged" if unjudged else ""
    said += f"; no time for {late} works" if late else ""
    if failed or not goals:
        raise Failed(f"{failed} works failed; {said}\n{tail(out)}")
    if reached < goals:
        raise Short(said)
    return said


def side_by_side(report: Report, jobs: list[tuple[str, Callable[[], str]]], count: int) -> None:
    """Check several things at a time."""
    with ThreadPoolExecutor(max_workers=count) as pool:
        list(pool.map(lambda job: report.run(*job), jobs))


def everything(report: Report, device: str, at_once: int, only: list[str]) -> None:
    """All checks, in order.

    Args:
        report: what is added to.
        device: which, as a text.
        at_once: how many checks run side by side.
        only: beginnings of the names of those that are wanted; empty: all.
    """

    def wanted(name: str) -> bool:
        return not only or any(name.startswith(word) for word in only)

    report.run("device", lambda: runtime("device", device))
    if not report.passed("device"):
        return
    promised = [name for name in CHECKS if name != "device" and wanted(f"runtime {name}")]
    for name in promised:
        if name in ALONE:
            report.run(f"runtime {name}", partial(runtime, name, device))
    side_by_side(
        report,
        [(f"runtime {n}", partial(runtime, n, device)) for n in promised if n not in ALONE],
        min(at_once, 4),
    )
    jobs = [(t, d) for t in SMALL for d in DTYPES if wanted(f"kernels {t}")]
    rounds = -(-len(jobs) // at_once) or 1
    seconds = SHARE * report.left / rounds
    side_by_side(
        report,
        [(f"kernels {t} {d}", partial(kernels, t, d, device, seconds)) for t, d in jobs],
        at_once,
    )
    if wanted("figures"):
        report.run("figures", lambda: figures(device, max(report.left - 30, 30) / 60))
    else:
        report.add("figures", SKIP, 0.0, "not asked for")


NAMES = (
    *("install", "device", "figures"),
    *(f"runtime {name}" for name in CHECKS),
    *(f"kernels {template}" for template in SMALL),
)
"""What ``--only`` can name."""


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda:0", help="cuda:0, ..., cuda-emulator, stand-in")
    parser.add_argument("--minutes", type=float, default=8.0, help="for all of it")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="kernels, runtime ..")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 8))
    parser.add_argument("--out", type=Path, help="the report as JSON")
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
    report = Report(asked.minutes, read_items(before), before.get("began"))
    everything(report, asked.device, asked.jobs, asked.only)
    print("\n" + "\n".join(report.summary()))
    if asked.out:
        asked.out.write_text(json.dumps(report.to_json(), indent=1) + "\n")
    return report.status or (0 if report.passed("device") else UNDONE)


if __name__ == "__main__":
    sys.exit(main())
