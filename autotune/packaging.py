"""Packaging: each task's best config, built for several processors, and written as one file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from whet.autotune.apply import estimated
from whet.autotune.deploy import kernel_name
from whet.autotune.results.recorded import opened
from whet.autotune.tasks.task import Task
from whet.compiler.abi.tuned_by import TunedBy
from whet.compiler.errors import ArgumentError, ArtifactError, LogError
from whet.compiler.runtime.package.index import MOST_KERNELS, NAME, Index, Kernel, Library, Variant
from whet.db.choose import Elsewhere, Source, check_fallback, choose

if TYPE_CHECKING:
    from whet.compiler.runtime.module import Module
    from whet.compiler.target import Target
    from whet.db import TuningLog
    from whet.measure.device.names import AnyDevice
    from whet.search_spaces import Config

Tasks = Task | Sequence[Task] | Mapping[str, Task]
Say = Callable[[str], object]
Chosen = tuple["Config", TunedBy]

OLDER = {"x86_64": ("x86-64-v4", "x86-64-v3", "x86-64-v2")}
"""Architecture of a task -> the levels that it is packaged for, too, where its own is wider."""
UNTUNED = "untuned=True (--untuned) takes its default config"


def package(
    tasks: Tasks,
    path: str | os.PathLike[str],
    log: TuningLog | str | os.PathLike[str] | None = None,
    *,
    levels: Sequence[str] = (),
    device: AnyDevice | None = None,
    fallback: str | None = None,
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
        device: whose records are exact, as for ``build``; None: this machine's.
        fallback: how far to go where there is none, as for :func:`whet.apply_best`; None:
            ``"device"``, which takes another machine's, unless ``device`` names one. For a level
            of which no machine has a record, the one for the task's own target is fitted.
        untuned: take the default config of a task without a record that applies.
        cc: architecture -> the C compiler that links for it; None: ``cc`` and
            ``aarch64-linux-gnu-gcc``.
        say: is called with a line about each kernel before it is built.

    Returns:
        The index of the file.

    Raises:
        ArgumentError: there is no task, or what was given is none; there is no such fallback.
        ArtifactError: two tasks have one name, a level is not known, there is no C compiler for it,
            or the file cannot be written.
        LogError: the log cannot be read, or has no record of a task.
    """
    from whet.compiler.runtime.library.export import check_place
    from whet.compiler.runtime.library.source import path_of
    from whet.compiler.runtime.package.container import chunks
    from whet.compiler.runtime.package.link import replace_file

    request = f"package({str(path)!r})"
    file = path_of(request, path)
    check_place(request, file)
    named = _named(request, tasks)
    fallback = ("device" if device is None else "none") if fallback is None else fallback
    check_fallback(fallback, "package")
    with nullcontext() if log is None else opened(log, write=False) as tuning_log:
        maker = _Maker(request, tuning_log, device, fallback, untuned, say or (lambda line: None))
        for name, task in named.items():
            maker.add(name, task, levels)
    index, blobs = maker.made(cc or {})
    replace_file(request, file, chunks(index.to_json(), blobs))
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
        self,
        request: str,
        log: TuningLog | None,
        device: AnyDevice | None,
        fallback: str,
        untuned: bool,
        say: Say,
    ) -> None:
        self._request, self._log, self._device = request, log, device
        self._fallback, self._untuned, self._say = fallback, untuned, say
        self._libraries: dict[Library, list[Module]] = {}
        self._kernels: list[tuple[str, Task, list[tuple[Library, Chosen, Module]]]] = []

    def add(self, name: str, task: Task, levels: Sequence[str]) -> None:
        """Build a task's kernel for levels; those whose code runs on the same CPUs once.

        Without levels, for its own target and for what is older.
        """
        from whet.compiler import driver
        from whet.compiler.runtime.package.link import level_target

        own = self._library(name, "own", task.target)
        made: dict[Library, tuple[Library, Chosen, Module]] = {}
        for level in levels or ("own", *OLDER.get(own.arch, ())):
            target = level_target(self._request, task.target, level)
            library = self._library(name, level, target)
            if any(_place(library) == _place(other) for other in made):
                continue
            if not levels and not set(own.needs).issuperset(library.needs):
                continue  # a newer processor runs what was tuned
            self._say(f"{name}: {library.level}, {library.arch}")
            one = replace(task, target=target)
            config, tuned_by = self._choose(one, task)
            schedule, args = one.instantiate(config)
            schedule.tuned_by = tuned_by
            module = driver.build(schedule, args, target=target, name=name)
            library = self._known(library)
            self._libraries.setdefault(library, []).append(module)
            made[library] = library, (config, tuned_by), module
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

    def _choose(self, task: Task, own: Task) -> Chosen:
        """The config for a target of a task: by the rule of every build, but for the default.

        Raises:
            LogError: there is no record, and default configs were not allowed.
        """
        full, tuned = replace(task, level="full"), replace(own, level="full")
        if self._log is None:
            if not self._untuned:
                raise LogError(f"package {own}", "no log was given", f"log='whet.db'; {UNTUNED}")
            return _default(full, "no log was given")
        elsewhere = None
        if task.target != own.target:
            elsewhere = Elsewhere(own.target, tuned.config_space)
        choice = choose(
            [Source((self._log,), self._device, self._fallback, estimated)],
            task.workload,
            task.target,
            full.config_space,
            elsewhere,
            f"whet.tune(task, log={self._log.location!r})",
        )
        if choice.config is not None:
            return choice.config, _portable(choice.tuned_by)
        if not self._untuned:
            why, way_out = choice.tuned_by.why, choice.way_out
            raise LogError(f"package {own}", why, f"{way_out}; {UNTUNED}")
        return _default(full, f"no record of the log applies: {choice.tuned_by.why}")

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
            sorted_by_number = sorted(made, key=lambda one: numbers[one[0]])
            variants = [
                Variant(
                    numbers[library], config.as_dict(), tuned_by.to_json(),
                    str(module.get_function(name).signature),
                )
                for library, (config, tuned_by), module in sorted_by_number
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


def _default(task: Task, why: str) -> Chosen:
    """The default config, and why it is that one."""
    tuned_by = TunedBy("default", str(task.workload), str(task.target), why=why)
    return task.config_space.default, tuned_by


def _portable(tuned_by: TunedBy) -> TunedBy:
    """The reason without the folder of its log: it gives the same bytes wherever that lies."""
    return replace(tuned_by, log=tuned_by.log.rpartition("/")[2])
