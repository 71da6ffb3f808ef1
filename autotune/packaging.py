"""Packaging: each task's best config, built for several processors, and written as one file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from whet.autotune.deploy import kernel_name
from whet.autotune.results.recorded import opened
from whet.autotune.tasks.task import Task
from whet.compiler.errors import ArgumentError, ArtifactError, LogError
from whet.compiler.runtime.package.index import MOST_KERNELS, NAME, Index, Kernel, Library, Variant

if TYPE_CHECKING:
    from whet.compiler.runtime.arrays.device import Device as RuntimeDevice
    from whet.compiler.runtime.module import Module
    from whet.compiler.target import Target
    from whet.db import TuningLog
    from whet.db.values.records import TrialRecord
    from whet.measure.device.names import Device
    from whet.search_spaces import Config, ConfigSpace

Tasks = Task | Sequence[Task] | Mapping[str, Task]
Say = Callable[[str], object]

OLDER = {"x86_64": ("x86-64-v4", "x86-64-v3", "x86-64-v2")}
"""Architecture of a task -> the levels that it is packaged for, too, where its own is wider."""


@dataclass(frozen=True)
class Choice:
    """A config for a kernel, and why it is that one.

    Attributes:
        config: of the space of the target that it is built for.
        tuned_by: as JSON-able data. ``how`` is ``"exact"``: the best that was measured here for
            this target; ``"device"``: on another machine; ``"target"``: for another target of the
            task, and fitted to this one's space; ``"default"``: nothing was. ``why`` is a sentence;
            ``workload``, ``target``, ``device``, ``cost`` (seconds a call) and ``trial`` (its run
            and number) are the record's.
    """

    config: Config
    tuned_by: Mapping[str, Any]

    @staticmethod
    def of(record: TrialRecord, how: str, config: Config, which: str = "") -> Choice:
        """The choice of a record.

        Args:
            record: the best of its task.
            how: see the class.
            config: the record's, or what it became in another space.
            which: words before the record's in ``why``.
        """
        from whet.compiler.target import Target
        from whet.db.values.identity import device_key
        from whet.search_spaces.values.counted import duration

        target, device = Target(record.target), device_key(record.device)
        why = f"trial {record.number}: {duration(record.cost)} for {target.short} on {device}"
        tuned_by = {
            "how": how, "workload": str(record.workload), "target": str(target), "device": device,
            "cost": record.cost, "trial": [record.run_id, record.number], "why": which + why,
        }  # fmt: skip
        return Choice(config, tuned_by)


def package(
    tasks: Tasks,
    path: str | os.PathLike[str],
    log: TuningLog | str | os.PathLike[str] | None = None,
    *,
    levels: Sequence[str] = (),
    device: Device | RuntimeDevice | None = None,
    untuned: bool = False,
    cc: Mapping[str, str] | None = None,
    say: Say | None = None,
) -> Index:
    """Write the kernels of tasks to one file, each with its best config in a log.

    The same tasks and the same log give the same bytes.

    Args:
        tasks: one or several; a dict names the kernels, else they are called after their templates.
        path: the file, by custom in ``.whet``.
        log: a log, its path or its URL; None: default configs, with ``untuned``.
        levels: processors to make code for, of those of :data:`~whet.compiler.runtime.package.link.
            LEVELS`: ``"own"`` is each task's target as it is. None: by the task's architecture. A
            task for GPUs is packaged for its own target alone.
        device: whose records count, as for ``build``; None: this machine's, and where it has none
            of a target, those of the last machine that measured it.
        untuned: take the default config of a task without a record.
        cc: architecture -> the C compiler that links for it; None: ``cc`` and
            ``aarch64-linux-gnu-gcc``.
        say: is called with a line about each kernel before it is built.

    Returns:
        The index of the file.

    Raises:
        ArgumentError: there is no task, or what was given is none.
        ArtifactError: two tasks have one name, a level is not known, there is no C compiler for it,
            or the file cannot be written.
        LogError: the log cannot be read, or has no record of a task.
    """
    from whet.compiler.runtime.library.export import check_place
    from whet.compiler.runtime.library.source import path_of
    from whet.compiler.runtime.package.container import packed
    from whet.compiler.runtime.package.link import replace_file

    request = f"package({str(path)!r})"
    file = path_of(request, path)
    check_place(request, file)
    named = _named(request, tasks)
    with nullcontext() if log is None else opened(log, write=False) as tuning_log:
        maker = _Maker(request, tuning_log, device, untuned, say or (lambda line: None))
        for name, task in named.items():
            maker.add(name, task, levels)
    index, blobs = maker.made(cc or {})
    replace_file(request, file, packed(index.to_json(), blobs))
    return index


def _named(request: str, tasks: Tasks) -> dict[str, Task]:
    """The tasks by the names of their kernels."""
    if isinstance(tasks, Task):
        tasks = [tasks]
    if not isinstance(tasks, Mapping | Sequence) or isinstance(tasks, str):
        raise ArgumentError(request, f"tasks are Tasks, not {tasks!r}", "whet.create_task(...)")
    given = list(tasks.items()) if isinstance(tasks, Mapping) else [("", t) for t in tasks]
    named: dict[str, Task] = {}
    for name, task in given:
        if not isinstance(task, Task):
            raise ArgumentError(request, f"{task!r} is no Task", "whet.create_task(...) makes one")
        name = name or kernel_name(task)
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise ArgumentError(request, f"{name!r} is no name of a kernel", "an identifier is")
        if name in named:
            raise ArtifactError(
                request,
                f"two tasks are called {name}: {named[name]} and {task}",
                f'a dict names them: tasks = {{"{name}_a": ..., "{name}_b": ...}}',
            )
        named[name] = task
    if not 0 < len(named) <= MOST_KERNELS:
        raise ArgumentError(request, f"{len(named)} tasks", f"give 1 to {MOST_KERNELS}")
    return named


class _Maker:
    """Builds kernels, and sorts them into libraries."""

    def __init__(
        self, request: str, log: TuningLog | None, device: Any, untuned: bool, say: Say
    ) -> None:
        self._request, self._log, self._device = request, log, device
        self._untuned, self._say = untuned, say
        self._libraries: dict[Library, list[Module]] = {}
        self._kernels: list[tuple[str, Task, list[tuple[Library, Choice, Module]]]] = []

    def add(self, name: str, task: Task, levels: Sequence[str]) -> None:
        """Build a task's kernel for levels; those whose code runs on the same CPUs once.

        Without levels, for its own target and for what is older.
        """
        from whet.compiler import driver
        from whet.compiler.runtime.package.link import level_target

        own = self._library(name, "own", task.target)
        made: dict[Library, tuple[Library, Choice, Module]] = {}
        for level in levels or ("own", *OLDER.get(own.arch, ())):
            target = level_target(self._request, task.target, level)
            library = self._library(name, level, target)
            if any(_place(library) == _place(other) for other in made):
                continue
            if not levels and not set(own.needs).issuperset(library.needs):
                continue  # a newer processor runs what was tuned
            self._say(f"{name}: {library.level}, {library.arch}")
            one = replace(task, target=target)
            choice = self._choose(one, task)
            schedule, args = one.instantiate(choice.config)
            module = driver.build(schedule, args, target=target, name=name)
            library = self._known(library)
            self._libraries.setdefault(library, []).append(module)
            made[library] = library, choice, module
        self._kernels.append((name, task, [*made.values()]))

    def _library(self, name: str, level: str, target: Target) -> Library:
        from whet.compiler.runtime.package.link import arch_of_gpu, level_name, needs_of

        if target.device == "cuda":
            return Library("cuda", arch_of_gpu(target), name, ())
        arch, needs = needs_of(self._request, target)
        return Library("cpu", arch, level_name(arch, needs) or level, needs)

    def _known(self, library: Library) -> Library:
        """The library for the same processors, where there is one already under another word."""
        same = (other for other in self._libraries if _place(other) == _place(library))
        return next(same, library)

    def _choose(self, task: Task, own: Task) -> Choice:
        """The config for a target of a task.

        Raises:
            LogError: there is no record, and default configs were not allowed.
        """
        space = replace(task, level="full").config_space
        found = self._best(space, task)
        if found is not None:
            return Choice.of(*found, found[0].config)
        if task.target != own.target:
            found = self._best(replace(own, level="full").config_space, own)
            if found is not None:
                return Choice.of(found[0], "target", *_fitted(space, found[0].config))
        if not self._untuned:
            raise self._no_record(own)
        why = "the log has no record of it" if self._log is not None else "no log was given"
        about = {"workload": str(task.workload), "target": str(task.target)}
        return Choice(space.default, {"how": "default", "why": why, **about})

    def _best(self, space: ConfigSpace, task: Task) -> tuple[TrialRecord, str] | None:
        """The best record of a task, and how: this machine's, or the last that measured it."""
        from whet.measure.values import target_json

        if self._log is None:
            return None
        found = self._log.best_in(space, task.workload, task.target, self._device)
        if found is not None:
            return found, "exact" if self._device is None else "device"
        if self._device is not None:
            return None
        wanted = target_json(task.target)
        runs = [r for r in self._log.runs() if (r.workload, r.target) == (task.workload, wanted)]
        for run in sorted(runs, key=lambda run: run.started_at, reverse=True):
            found = self._log.best_in(space, task.workload, task.target, run.device)
            if found is not None:
                return found, "device"
        return None

    def _no_record(self, task: Task) -> LogError:
        request, way_out = f"package {task}", "untuned=True (--untuned) takes its default config"
        if self._log is None:
            return LogError(request, "no log was given", f"log='whet.db'; {way_out}")
        from whet.db.missing import explain

        why, other = explain(
            self._log, task.workload, task.target, task.config_space.fingerprint, self._device,
            f"whet.tune(task, log={self._log.location!r})",
        )  # fmt: skip
        return LogError(request, why, f"{other}; {way_out}")

    def made(self, cc: Mapping[str, str]) -> tuple[Index, list[bytes]]:
        """The index and the libraries of all that was added.

        Raises:
            ArtifactError: a library cannot be linked.
        """
        from whet.compiler.installed import installed_versions
        from whet.compiler.runtime.package.link import gpu_data, linked

        ordered = sorted(self._libraries, key=_width)
        blobs = []
        for library in ordered:
            modules = self._libraries[library]
            self._say(f"linking {library.level}, {library.arch}")
            gpu = library.kind == "cuda"
            blobs.append(gpu_data(modules[0]) if gpu else linked(self._request, modules, cc))
        numbers = {library: number for number, library in enumerate(ordered)}
        kernels = []
        for name, task, made in self._kernels:
            variants = [
                Variant(
                    numbers[library], choice.config.as_dict(), choice.tuned_by,
                    str(module.get_function(name).signature),
                )
                for library, choice, module in sorted(made, key=lambda one: numbers[one[0]])
            ]  # fmt: skip
            kernels.append(Kernel(name, str(task.workload), tuple(variants)))
        version = installed_versions(("whet",)).get("whet", "")
        return Index(version, tuple(ordered), tuple(kernels)), blobs


def _place(library: Library) -> tuple[Any, ...]:
    """The processors of a library; a GPU's kernel has one for itself."""
    name = library.level if library.kind == "cuda" else ""
    return library.kind, library.arch, library.needs, name


def _width(library: Library) -> tuple[Any, ...]:
    """Sorts libraries: of one architecture, the one that needs more first."""
    return library.kind, library.arch, -len(library.needs), library.level, library.needs


def _fitted(space: ConfigSpace, config: Config) -> tuple[Config, str]:
    """A config of another target in a space, as it is or the nearest; and a word for which."""
    from whet.compiler.errors import SpaceError
    from whet.search_spaces.space.encoding import nearest

    try:
        return space.from_choices(config.as_dict()), "as of "
    except SpaceError:
        return nearest(space, config), "the nearest to that of "
