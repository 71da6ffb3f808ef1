"""The connection to Ray: to a cluster that is there, or to a new one on loopback only."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from whet.compiler.errors import MeasureError, WorkerLostError
from whet.compiler.installed import install_extra
from whet.measure.cluster.last_word import spoken
from whet.measure.cluster.listeners import is_loopback
from whet.measure.cluster.reader import check_listens, host_and_port
from whet.measure.cluster.shares import Search, searches_of
from whet.measure.cluster.snapshot import leaving_nodes, taken_by
from whet.measure.cluster.token import authenticate, demanded
from whet.measure.cluster.token import check as check_token
from whet.measure.stage import machine
from whet.measure.values import Json

MEASURER = "whet_measurer"  # the custom resource of which each measuring machine offers one
STORE_BYTES = 100 << 20  # object store of a local cluster; only small values travel
# Ray's own setting, which it reads when imported: only with 0 does a local cluster bind to
# 127.0.0.1 instead of to every interface.
LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
# Seconds for which a head keeps what a process that came in by ray:// had, when that is silent:
# Ray's own 30 would leave the actors of a killed search at work for as long.
GRACE, GRACE_S = "RAY_CLIENT_RECONNECT_GRACE_PERIOD", "3"

head_lost = threading.Event()
"""Set when the cluster's head does not answer any more: then nothing is asked of it."""
END_S = 10.0
"""Seconds for leaving a cluster whose head does not answer."""

_lock = threading.Lock()
_described: dict[object, Json] = {}
_all_here = False  # the cluster was started by this process, on this machine
_users = 0  # how many rely on this connection
_started_here = False
_begun = contextlib.ExitStack()  # what goes with the connection


@contextlib.contextmanager
def connected(address: str | None = None) -> Iterator[Any]:
    """A connection to Ray, or a share of the one that there is; the ``ray`` module.

    Args:
        address: ``"ray://host:port"``, ``"host:port"``, or None: the cluster that this process is
            connected to, else a new one on this machine. The last one that leaves ends what the
            first one began.

    Raises:
        MeasureError: Ray is missing or the cluster cannot be reached.
    """
    global _users, _started_here, _all_here
    with _lock:
        here = address is None or _is_here(address)
        if here and "ray" not in sys.modules:
            os.environ.setdefault(LOOPBACK, "0")
        if address:
            os.environ.setdefault(GRACE, GRACE_S)
            authenticate()
        try:
            import ray
        except ImportError as error:
            raise MeasureError(
                'workers="ray"', f"Ray cannot be imported: {error}", install_extra("cluster")
            ) from error
        if not ray.is_initialized():
            head_lost.clear()
            _described.clear()
            _all_here = not address
            try:
                if address:
                    check_listens(address)  # Ray would knock there for minutes
                    if address.startswith("ray://") and find_spec("grpc"):
                        check_token(address)
                    elif not address.startswith("ray://"):
                        _begun.enter_context(spoken())
                    ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
                else:
                    # Other users of this machine reach loopback, too.
                    _begun.enter_context(demanded())
                    _start(ray)
            except BaseException as error:
                ray.shutdown()  # what has been started of it, also where Ctrl-C came meanwhile
                _begun.close()
                if isinstance(error, MeasureError) or not isinstance(error, Exception):
                    raise
                raise _unreachable(address, error) from error
            _started_here = True
        _users += 1
    try:
        yield ray
    finally:
        with _lock:
            _users -= 1
            if _users == 0 and _started_here:
                _started_here = False
                _leave(ray)
                _begun.close()


@dataclass(frozen=True)
class Node:
    """One machine of the cluster.

    Attributes:
        id: Ray's.
        host: its name.
        alive: it answers.
        resources: its shares, held or not: ``{"CPU": 4.0, ...}``.
        labels: what was said of it at its start.
        leaving: it ends as soon as what runs there is done.
    """

    id: str
    host: str
    alive: bool
    resources: dict[str, float]
    labels: dict[str, str]
    leaving: bool = False


def nodes(ray: Any) -> list[Node]:
    """The machines of the cluster, those that were lost, too.

    Raises:
        ray.exceptions.RayError: the cluster does not answer.
    """
    leaving = leaving_nodes(ray)
    return [
        Node(
            str(one["NodeID"]),
            str(one.get("NodeManagerHostname") or one.get("NodeManagerAddress") or "?"),
            bool(one["Alive"]),
            dict(one.get("Resources") or {}),
            dict(one.get("Labels") or {}),
            str(one["NodeID"]) in leaving,
        )
        for one in ray.nodes()
    ]


def searches(ray: Any) -> list[Search]:
    """The searches that have actors on the cluster."""
    from ray.util import list_named_actors

    named = list_named_actors(all_namespaces=True)
    return list(searches_of(one["name"] for one in named).values())


def on_node(node: str) -> Any:
    """Ray's word for: on this machine, or nowhere."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node, soft=False)


def describe(ray: Any, node: str, kinds: Sequence[str] = (), seconds: float = 90.0) -> Json:
    """The description of a machine's processor, by that machine.

    Args:
        ray: the connected module.
        node: its id.
        kinds: of targets, as of :func:`whet.measure.stage.machine.describe`.
        seconds: the most that it may take.

    Raises:
        WorkerLostError: it is no more, even if Ray lists it yet.
        MeasureError: it does not answer.
    """
    return remembered((node, tuple(kinds)), lambda: _asked(ray, node, kinds, seconds))


def remembered(key: object, describe: Callable[[], Json]) -> Json:
    """A description that is asked for once while this process is connected."""
    if key not in _described:
        _described[key] = describe()
    return deepcopy(_described[key])


def _asked(ray: Any, node: str, kinds: Sequence[str], seconds: float) -> Json:
    if _all_here and _started_here:
        return machine.describe(kinds)
    task = ray.remote(machine.describe).options(
        num_cpus=0, max_retries=0, scheduling_strategy=on_node(node), name="whet describe"
    )
    try:
        return dict(ray.get(task.remote(list(kinds)), timeout=seconds))
    except (ray.exceptions.TaskUnschedulableError, ray.exceptions.NodeDiedError) as error:
        raise WorkerLostError('workers="ray"', f"the machine {node} is no more: {error}") from error
    except ray.exceptions.RayError as error:
        raise MeasureError(
            'workers="ray"',
            f"the machine {node} does not describe itself: {type(error).__name__}: {error}",
            "is Whet installed there, in the same version?",
        ) from error


def free_gpus(ray: Any) -> int:
    """GPUs of the cluster that nobody holds.

    Raises:
        MeasureError: there is none.
    """
    have, free = ray.cluster_resources().get("GPU", 0), ray.available_resources().get("GPU", 0)
    if free >= 1:
        return int(free)
    why = f"all of its {have:g} GPUs are in use" if have else "the cluster offers no GPU"
    raise MeasureError(
        'workers="ray" on a GPU',
        why,
        "`ray start --num-gpus=N` on a machine that has them; ray status says who holds them\n"
        f"the cluster has {ray.cluster_resources()}",
    )


def free_of_nodes(ray: Any) -> dict[str, dict[str, float]]:
    """The shares that nobody holds, by the ids of their machines."""
    return {one["id"]: dict(one["free"]) for one in taken_by(ray)["nodes"]}


def free_gpus_of_nodes(ray: Any) -> dict[str, int]:
    """GPUs that nobody holds, by the ids of their machines."""
    return {node: int(free.get("GPU", 0)) for node, free in free_of_nodes(ray).items()}


def wait_for_gpus(ray: Any, count: int, seconds: float = 20.0) -> None:
    """Wait until so many GPUs are free again: an actor that was killed holds its own a while."""
    end = time.monotonic() + seconds
    while ray.is_initialized() and time.monotonic() < end:
        try:
            if ray.available_resources().get("GPU", 0) >= count:
                return
        except ray.exceptions.RayError:  # the cluster is gone, and whoever held them
            return
        time.sleep(0.05)


def _leave(ray: Any) -> None:
    """End what was begun here; a head that does not answer holds up nobody."""
    if not head_lost.is_set():
        ray.shutdown()
        return
    end = threading.Thread(target=ray.shutdown, daemon=True)
    end.start()
    end.join(END_S)


def _unreachable(address: str | None, error: Exception) -> MeasureError:
    """Ray raises all kinds of errors, bare ones, too."""
    way_out = "`ray status` on the head says whether it runs"
    if str(address).startswith("ray://"):
        way_out += "; ray:// takes its client port (10001)"
        if not find_spec("grpc"):
            way_out = install_extra("cluster")
    why = f"{type(error).__name__}: {error}"
    return MeasureError(f"Ray cluster at {address or 'this machine'}", why, way_out)


def _is_here(address: str) -> bool:
    """True for an address that Ray would take for another one of this machine."""
    host, _ = host_and_port(address)
    if host == "localhost":
        return True
    with contextlib.suppress(ValueError):  # another name
        return is_loopback(host)
    return False


def _start(ray: Any) -> None:
    with _importable_here():
        ray.init(
            "local",
            num_cpus=max(2, len(os.sched_getaffinity(0))),
            resources={MEASURER: 1},
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            object_store_memory=STORE_BYTES,
        )


@contextlib.contextmanager
def _importable_here() -> Iterator[None]:
    """Let Ray's own processes, which inherit our environment, import what we can import."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(os.path.abspath(p) for p in sys.path)
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
