"""Cores of a machine for measuring and for building: sets of one NUMA node, never shared.

A core is a logical CPU, as Linux numbers them; hyper-threads of one physical core are *siblings*.
What one of them does slows the others, so that whoever measures has all of them to itself.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from whet.compiler.errors import ArgumentError
from whet.measure.cluster.announce import cores_of_text, text_of_cores

SYSTEM = Path("/sys/devices/system")


@dataclass(frozen=True)
class CoreSet:
    """Cores of one NUMA node on which one candidate at a time is measured.

    Attributes:
        numa: the node.
        cores: numbers, ascending.
    """

    numa: int
    cores: tuple[int, ...]


@dataclass(frozen=True)
class Division:
    """The cores that a machine gives.

    Attributes:
        measuring: the sets to measure on.
        building: the cores to build on; siblings of measuring ones are not among them.
    """

    measuring: tuple[CoreSet, ...]
    building: tuple[int, ...]

    @property
    def cores(self) -> tuple[int, ...]:
        """All of them, ascending."""
        return tuple(sorted({*self.building, *(c for one in self.measuring for c in one.cores)}))


class Topology:
    """The NUMA nodes and the siblings of the cores that a process may use.

    Args:
        allowed: numbers of the cores; None: those that this process may run on.
        system: the kernel's folder, ``/sys/devices/system``.

    Attributes:
        allowed: ascending.
    """

    def __init__(self, allowed: Iterable[int] | None = None, system: Path = SYSTEM) -> None:
        self.allowed = tuple(sorted(os.sched_getaffinity(0) if allowed is None else allowed))
        self._system = system
        self._node_of: dict[int, int] = {}
        for folder in system.glob("node/node[0-9]*"):
            for core in self._list(folder / "cpulist"):
                self._node_of[core] = int(folder.name[len("node") :])

    def node_of(self, core: int) -> int:
        """The NUMA node of a core; 0 where the kernel knows of none."""
        return self._node_of.get(core, 0)

    def siblings(self, core: int) -> tuple[int, ...]:
        """The hyper-threads of a core's physical core, itself among them."""
        found = self._list(self._system / f"cpu/cpu{core}/topology/thread_siblings_list")
        return found if core in found else (core,)

    def of_nodes(self, cores: Collection[int]) -> dict[int, tuple[int, ...]]:
        """Cores by their NUMA nodes, ascending."""
        nodes = sorted({self.node_of(core) for core in cores})
        return {n: tuple(c for c in sorted(cores) if self.node_of(c) == n) for n in nodes}

    def physical(self, cores: Collection[int]) -> tuple[int, ...]:
        """One hyper-thread of each physical core, the first of ``cores``."""
        return tuple(c for c in sorted(cores) if min(set(self.siblings(c)) & set(cores)) == c)

    def _list(self, path: Path) -> tuple[int, ...]:
        try:
            return cores_of_text(path.read_text()) or ()
        except OSError:
            return ()  # a kernel or a container that does not say: callers have a default


def divide(
    topology: Topology,
    cores: str | None = None,
    measure: Sequence[str] = (),
    build: str | None = None,
) -> Division:
    """Divide a machine's cores into those that measure and those that build.

    With neither ``measure`` nor ``build``, the last physical core of each NUMA node measures, and
    the others build.

    Args:
        topology: of the machine.
        cores: those that are given at all, as Linux lists them (``"0-3,8"``); None: all that this
            process may use.
        measure: a list for each set that measures; one that spans NUMA nodes is a set in each.
            ``"all"``: all that do not build, the first hyper-thread of each physical core.
        build: a list of cores to build on; ``"all"``: all that do not measure.

    Raises:
        ArgumentError: a list is none, names cores that this process may not use, or that two sets
            would share; or nothing is left to give.
    """
    given = topology.allowed if cores is None else _named(topology, "--cores", cores)
    if not measure and build is None:
        sets = [n[-1:] for n in map(topology.physical, topology.of_nodes(given).values())]
        return _divided(topology, given, sets, "all")
    to_build = () if build in (None, "all") else _named(topology, "--build", build, given)
    if "all" not in measure:
        sets = [_named(topology, "--measure", text, given) for text in measure]
        return _divided(topology, given, _split(topology, sets), build)
    if len(measure) > 1 or build == "all":
        other = "--build" if build == "all" else "another --measure"
        raise ArgumentError(
            f"whet worker --measure {other}",
            "both take all cores, and a core that measures does nothing else",
            f"name the cores of one of them: --measure {text_of_cores(given[-1:])}",
        )
    busy = _with_siblings(topology, to_build)
    free = topology.physical([core for core in given if core not in busy])
    if not free:
        raise ArgumentError(
            f"whet worker --measure --build {build}",
            "no physical core is left to measure on: hyper-threads of those that build share them",
            "build on fewer cores, or leave --measure out",
        )
    return _divided(topology, given, _split(topology, [free]), build)


def other_cores(topology: Topology, division: Division) -> tuple[int, ...]:
    """Where the cluster's own processes run: off the cores that measure, if there are others."""
    measuring = _with_siblings(topology, (c for one in division.measuring for c in one.cores))
    free = tuple(core for core in topology.allowed if core not in measuring)
    return division.building or free or topology.allowed


def _divided(
    topology: Topology, given: Sequence[int], sets: Sequence[tuple[int, ...]], build: str | None
) -> Division:
    """The division with these sets; those that share a physical core are refused."""
    taken: dict[int, tuple[int, ...]] = {}
    for cores in sets:
        for core in sorted(_with_siblings(topology, cores)):
            if core in taken:
                raise ArgumentError(
                    f"whet worker --measure {text_of_cores(taken[core])} "
                    f"--measure {text_of_cores(cores)}",
                    f"both would use core {core} or a hyper-thread of its physical core",
                    "sets that measure are apart: see thread_siblings_list in "
                    "/sys/devices/system/cpu/cpu*/topology",
                )
            taken[core] = cores
    building: tuple[int, ...] = ()
    if build == "all":
        building = tuple(core for core in given if core not in taken)
    elif build is not None:
        building = _named(topology, "--build", build, given)
        if shared := sorted(taken.keys() & set(building)):
            raise ArgumentError(
                f"whet worker --build {build}",
                f"cores {text_of_cores(shared)} measure, or are hyper-threads of such",
                f"a core that measures does nothing else: --build {_rest(building, taken)}",
            )
    measuring = (CoreSet(topology.node_of(cores[0]), cores) for cores in sets)
    return Division(tuple(sorted(measuring, key=lambda one: (one.numa, one.cores))), building)


def _rest(cores: Sequence[int], taken: Collection[int]) -> str:
    return text_of_cores(core for core in cores if core not in taken) or "other cores"


def _split(topology: Topology, sets: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Sets of one NUMA node each."""
    return [part for cores in sets for part in topology.of_nodes(cores).values()]


def _with_siblings(topology: Topology, cores: Iterable[int]) -> set[int]:
    return {sibling for core in cores for sibling in (core, *topology.siblings(core))}


def _named(
    topology: Topology, option: str, text: str, given: Collection[int] | None = None
) -> tuple[int, ...]:
    """The cores of an option's list.

    Raises:
        ArgumentError: it is no list, or names cores that are not there to give.
    """
    request, cores = f"whet worker {option} {text}", cores_of_text(text)
    whole = text_of_cores(topology.allowed)
    if not cores:
        raise ArgumentError(
            request, f"{text!r} is no list of cores", f"e.g. 0-3,8; this process may use {whole}"
        )
    if missing := sorted(set(cores) - set(topology.allowed)):
        raise ArgumentError(
            request,
            f"this process may not use cores {text_of_cores(missing)}",
            f"it may use {whole}: taskset, a container or the machine's size sets that",
        )
    if given is not None and (outside := sorted(set(cores) - set(given))):
        raise ArgumentError(
            request,
            f"cores {text_of_cores(outside)} are not among those that --cores gives",
            f"--cores gives {text_of_cores(given)}",
        )
    return cores
