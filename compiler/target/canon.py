"""Targets in any of the forms that a call may give them, as Targets with their hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ArgumentError

if TYPE_CHECKING:
    from whet.compiler.target.target import Target


def canon_target(target: Any) -> Target | None:
    """A target in any form as a Target; None stays None."""
    from whet.compiler.target.target import Target

    return None if target is None else Target(target)


def canon_target_and_host(
    target: Any, host: Any = None, target_is_dict_key: bool = True
) -> tuple[Target | None, Target | None]:
    """A target that has its host, and that host.

    Args:
        target: a target in any form, or None.
        host: a host in any form; the target's own one by default.
        target_is_dict_key: TVM's; a Target can always be a key here.

    Raises:
        ArgumentError: a host without a target.
    """
    from whet.compiler.target.target import Target

    if target is None:
        if host is not None:
            raise ArgumentError(
                f"canon_target_and_host(None, {host!r})", "a host needs a target", "give both"
            )
        return None, None
    full = Target(target, host)
    return full, full.host


def canon_multi_target(multi_targets: Any) -> list[Target] | None:
    """One target or several (a list; a dict, whose values are targets) as a list of Targets."""
    from whet.compiler.target.target import Target

    if multi_targets is None:
        return None
    if isinstance(multi_targets, Mapping) and "kind" not in multi_targets:
        return [Target(t) for t in multi_targets.values()]
    if isinstance(multi_targets, Sequence) and not isinstance(multi_targets, str):
        return [Target(t) for t in multi_targets]
    return [Target(multi_targets)]


def canon_multi_target_and_host(target: Any, target_host: Any = None) -> list[Target]:
    """One target or several as a list of Targets that all have their host.

    Raises:
        ArgumentError: there is no target.
    """
    found = canon_multi_target(target)
    if not found:
        raise ArgumentError(
            f"canon_multi_target_and_host({target!r})", "there is no target", "give one or several"
        )
    return [t if target_host is None else t.with_host(target_host) for t in found]


def canon_target_map_and_host(
    target_map: Mapping[Any, Any], target_host: Any = None
) -> tuple[dict[Target, Any], Target | None]:
    """A map from targets to anything as one from Targets that have a host, and that host."""
    from whet.compiler.target.target import Target

    out: dict[Target, Any] = {}
    host = canon_target(target_host)
    for key, value in target_map.items():
        full = Target(key, host)
        host = full.host if host is None else host
        out[full] = value
    return out, host


class CanonForms:
    """The functions of this file as methods of Target, where TVM has them."""

    __slots__ = ()

    canon_target = staticmethod(canon_target)
    canon_target_and_host = staticmethod(canon_target_and_host)
    canon_multi_target = staticmethod(canon_multi_target)
    canon_multi_target_and_host = staticmethod(canon_multi_target_and_host)
    canon_target_map_and_host = staticmethod(canon_target_map_and_host)
