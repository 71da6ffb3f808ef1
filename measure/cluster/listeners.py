"""The addresses at which processes of this machine listen."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import struct
from collections.abc import Iterable
from pathlib import Path

from whet.compiler.errors import ArgumentError

PROC = Path("/proc")
_LISTEN = "0A"  # a socket's state in /proc/net/tcp
_SOCKET = re.compile(r"socket:\[([0-9]+)\]")


def listeners(pids: Iterable[int]) -> set[tuple[str, int]]:
    """TCP addresses and ports at which some processes listen.

    Args:
        pids: the processes; those that have ended are passed over.
    """
    inodes: set[str] = set()
    for pid in pids:
        inodes |= _sockets(pid)
    found = set()
    for name in ("tcp", "tcp6"):
        try:
            lines = (PROC / "net" / name).read_text().splitlines()[1:]
        except OSError:
            continue  # a kernel without IPv6
        for fields in map(str.split, lines):
            if fields[3] == _LISTEN and fields[9] in inodes:
                found.add(_address(fields[1]))
    return found


def is_loopback(address: str) -> bool:
    """True for an address that only this machine reaches."""
    return ipaddress.ip_address(address).is_loopback


def own_address(text: str, way_out: str) -> str:
    """An IP address of this machine, from itself or a name of it.

    Args:
        text: e.g. ``"10.0.0.1"``, ``"localhost"``.
        way_out: the last line of the error.

    Raises:
        ArgumentError: this machine does not have it, or it stands for all.
    """
    try:
        address = str(socket.getaddrinfo(text, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])
        if ipaddress.ip_address(address).is_unspecified:
            raise OSError("it stands for every address; other machines need one to connect to")
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind((address, 0))
    except OSError as error:
        raise ArgumentError(f"whet worker --listen {text}", str(error), way_out) from error
    return address


def check_free(address: str, port: int, option: str) -> None:
    """Refuse a port at which somebody listens.

    Raises:
        ArgumentError: so it is.
    """
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((address, port))
    except OSError as error:
        raise ArgumentError(
            f"whet worker {option} {port}",
            f"{address}:{port} cannot be listened at: {error}",
            f"another port; or join the cluster that is there: --address {address}:{port}",
        ) from error


def tree(root: int) -> set[int]:
    """A process and all below it."""
    parents: dict[int, int] = {}
    for folder in PROC.glob("[0-9]*"):
        try:
            after_name = (folder / "stat").read_text().rpartition(")")[2]
        except OSError:
            continue  # it has ended
        parents[int(folder.name)] = int(after_name.split()[1])
    found, size = {root}, 0
    while len(found) > size:
        size = len(found)
        found |= {pid for pid, parent in parents.items() if parent in found}
    return found


def _sockets(pid: int) -> set[str]:
    inodes = set()
    try:
        for name in os.listdir(PROC / str(pid) / "fd"):
            found = _SOCKET.fullmatch(os.readlink(PROC / str(pid) / "fd" / name))
            if found is not None:
                inodes.add(found[1])
    except OSError:
        return inodes  # it has ended meanwhile
    return inodes


def _address(text: str) -> tuple[str, int]:
    """``0100007F:1F90`` as ``127.0.0.1`` and 8080: words of four bytes in the machine's order."""
    digits, _, port = text.partition(":")
    words = [int(digits[i : i + 8], 16) for i in range(0, len(digits), 8)]
    raw = b"".join(struct.pack("=I", word) for word in words)
    address = ipaddress.ip_address(raw)
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address), int(port, 16)
