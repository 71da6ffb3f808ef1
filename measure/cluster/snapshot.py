"""The state of a Ray cluster, as plain data; it runs where Ray's head can be asked directly."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]
METADATA = b"CLUSTER_METADATA"


def snapshot() -> Json:
    """The nodes of the cluster that this process is connected to, and its versions.

    Returns:
        ``{"ray": version, "python": version, "nodes": [...]}``; of each node that is alive
        ``id``, ``host``, ``address``, ``labels``, ``resources``, ``free`` and ``leaving``.
    """
    from ray._private.state import state

    leaving = state.get_draining_nodes()
    free = state.available_resources_per_node()
    nodes = [
        {
            "id": node["NodeID"],
            "host": node["NodeManagerHostname"],
            "address": node["NodeManagerAddress"],
            "labels": dict(node.get("Labels") or {}),
            "resources": dict(node.get("Resources") or {}),
            "free": dict(free.get(node["NodeID"]) or {}),
            "leaving": node["NodeID"] in leaving,
        }
        for node in state.node_table()
        if node["Alive"]
    ]
    return {**_versions(), "nodes": nodes}


def with_actors() -> Json:
    """:func:`snapshot`, and in ``"actors"`` the names of all actors that are up."""
    from ray._private.state import state

    actors = state.actor_table(None, None, "ALIVE").values()
    return snapshot() | {"actors": [actor["Name"] for actor in actors if actor["Name"]]}


def connect(address: str) -> None:
    """Let :func:`snapshot` ask the head at ``host:port``, without a node on this machine."""
    import ray._raylet as raylet
    from ray._private.state import state

    core: Any = raylet
    core.Config.initialize("")
    options = core.GcsClientOptions.create(
        address, None, allow_cluster_id_nil=True, fetch_cluster_id_if_nil=False
    )
    state._initialize_global_state(options)


def leaving_nodes(ray: Any) -> frozenset[str]:
    """Ids of the nodes that end as soon as what runs there is done.

    They take no new actors or tasks. A node that nobody leaves by itself ends after the time that
    ``whet worker --drain`` gave.

    Args:
        ray: the connected module, by ``host:port`` or by ``ray://``.

    Raises:
        ray.exceptions.RayError: the cluster does not answer.
    """
    return frozenset(node["id"] for node in taken_by(ray)["nodes"] if node["leaving"])


def taken_by(ray: Any, of: Callable[[], Json] = snapshot) -> Json:
    """:func:`snapshot` of the cluster that a driver is connected to, also by ``ray://``.

    Args:
        ray: the connected module.
        of: :func:`snapshot`, or :func:`with_actors`.
    """
    from ray._private.client_mode_hook import client_mode_should_convert

    if not client_mode_should_convert():
        return of()
    task = ray.remote(of).options(num_cpus=0, max_retries=0, name="whet snapshot")
    return ray.get(task.remote(), timeout=30)


def _versions() -> Json:
    from ray._private.ray_constants import KV_NAMESPACE_CLUSTER
    from ray._private.state import state

    accessor = state._connect_and_get_accessor()
    data = json.loads(accessor.get_internal_kv(KV_NAMESPACE_CLUSTER, METADATA) or "{}")
    return {"ray": data.get("ray_version", ""), "python": data.get("python_version", "")}
