"""The token of a Ray cluster: who has it may run code on every machine of it.

The head makes one where there is none; each other machine, and whoever tunes there, has a copy:
``scp head:.ray/auth_token ~/.ray/auth_token``.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from whet.compiler import settings
from whet.compiler.errors import MeasureError

MODE = "RAY_AUTH_MODE"
"""Ray's switch; it must be the same in every process of a cluster."""
TOKEN = "token"
ANSWER_S = 5.0
"""Seconds in which a head says that it refuses a token."""


def make() -> Path | None:
    """The token for a new cluster: made where there is none, readable by this user alone.

    Returns:
        Its file; None where the environment holds the token, or a cluster asks for none.

    Raises:
        MeasureError: it cannot be written.
    """
    if settings.ray_auth_mode() != TOKEN or settings.ray_token():
        return None
    path = settings.ray_token_path()
    if not _has_text(path):
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(file, "w") as opened:
                opened.write(secrets.token_hex(32))
        except OSError as error:
            raise MeasureError(
                f"a token for a Ray cluster in {path}",
                str(error),
                "RAY_AUTH_TOKEN_PATH names another file",
            ) from error
    return path


def find(address: str) -> Path | None:
    """The token for a cluster that is there.

    Args:
        address: of its head, for the error.

    Returns:
        As of :func:`make`.

    Raises:
        MeasureError: this machine has none.
    """
    if settings.ray_auth_mode() != TOKEN or settings.ray_token():
        return None
    path = settings.ray_token_path()
    if not _has_text(path):
        host = address.rpartition(":")[0]
        raise MeasureError(
            f"connection to the Ray cluster at {address}",
            f"this machine has no token of it: {path} is missing or empty",
            f"scp {host}:.ray/auth_token {path}   # and chmod 600; or RAY_AUTH_TOKEN_PATH=FILE",
        )
    return path


def check(address: str) -> None:
    """Refuse a token that the head behind ``ray://`` does not take: Ray would try for 30 s.

    Args:
        address: ``"ray://host:port"``.

    Raises:
        MeasureError: it refuses the token.
    """
    import grpc

    path = settings.ray_token_path()
    text = settings.ray_token() or (path.read_text().strip() if _has_text(path) else "")
    shown = [("authorization", f"Bearer {text}")] if text else []
    with grpc.insecure_channel(address.removeprefix("ray://")) as channel:
        ask = channel.unary_unary("/ray.rpc.RayletDriver/ClusterInfo")
        try:
            ask(b"", timeout=ANSWER_S, metadata=shown)
        except grpc.RpcError as error:  # most often: we are no client of it yet
            if error.code() is grpc.StatusCode.UNAUTHENTICATED:
                raise refused(address) from error


def refused(address: str) -> MeasureError:
    """The error of a cluster that refuses this machine's token.

    Args:
        address: with or without ``ray://``.
    """
    host = address.removeprefix("ray://").rpartition(":")[0]
    return MeasureError(
        f"connection to the Ray cluster at {address}",
        "it refuses this machine's token",
        f"scp {host}:.ray/auth_token {settings.ray_token_path()}: the head's token, and "
        "RAY_AUTH_MODE as there",
    )


def is_open_to_others(path: Path) -> bool:
    """True if other users of this machine can read a token's file."""
    try:
        return bool(path.stat().st_mode & 0o077)
    except OSError:
        return False  # who wants to use it will see


def environment() -> dict[str, str]:
    """The environment for a program of Ray's, with the switch set as a cluster of Whet's has it."""
    return settings.inherited() | {MODE: settings.ray_auth_mode()}


def authenticate() -> None:
    """Show the token, where there is one, when this process connects to a cluster.

    Ray does so by itself only for clusters of this machine. A user's own ``RAY_AUTH_MODE`` stays.
    """
    if MODE in os.environ or not (settings.ray_token() or _has_text(settings.ray_token_path())):
        return
    os.environ[MODE] = TOKEN
    _read_environment()


@contextmanager
def demanded() -> Iterator[None]:
    """Have a cluster that this process starts, and ends, ask for this user's token.

    Raises:
        MeasureError: it cannot be written.
    """
    if MODE in os.environ:
        yield
        return
    make()
    authenticate()
    try:
        yield
    finally:
        os.environ.pop(MODE, None)
        _read_environment()


def _read_environment() -> None:
    core: Any = sys.modules.get("ray._raylet")
    if core is not None:  # it has read the environment
        core.Config.initialize("")


def _has_text(path: Path) -> bool:
    try:
        return bool(path.read_text().strip())
    except OSError:
        return False
