"""The check before a machine joins a cluster: the same Whet, Python and Ray as the head's."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from whet.compiler import settings
from whet.compiler.errors import ArgumentError, MeasureError
from whet.compiler.installed import install_extra, installed_versions
from whet.measure.cluster.announce import CODE_LABEL, VERSION_LABEL

PYTHON_LABEL, RAY_LABEL = "whet/python", "whet/ray"
"""Labels of a node, as those of :mod:`whet.measure.cluster.announce`."""
DASHBOARD = ("aiohttp", "aiohttp_cors", "opencensus", "prometheus_client", "opentelemetry")
"""Modules that Ray's dashboard imports, and a plain Ray comes without."""
ROOM_BYTES = 1 << 30
"""Free bytes that Ray's files and the candidates' libraries need, about."""
GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


@dataclass(frozen=True)
class Versions:
    """The software by which machines of one cluster must agree.

    Attributes:
        whet: version of Whet; "" where it is not known.
        code: digest of Whet's files, which differ between two states of one version.
        python: version of Python.
        ray: version of Ray.
    """

    whet: str
    code: str
    python: str
    ray: str

    def labels(self) -> dict[str, str]:
        """Labels of a node, which :func:`of_labels` reads."""
        values = (self.whet, self.code, self.python, self.ray)
        # Ray refuses other signs: 0.1.0+local is 0.1.0_local
        return {k: v.replace("+", "_") for k, v in zip(_LABELS, values) if v}


_LABELS = (VERSION_LABEL, CODE_LABEL, PYTHON_LABEL, RAY_LABEL)


def of_labels(labels: Mapping[str, str]) -> Versions:
    """The versions that a node's labels say."""
    return Versions(*(labels.get(label, "") for label in _LABELS))


def own_versions() -> Versions:
    """The versions of this installation.

    Raises:
        MeasureError: Ray is not installed.
    """
    found = installed_versions(["whet", "ray"])
    if "ray" not in found or find_spec("ray") is None:
        raise MeasureError("whet worker", "Ray is not installed here", install_extra("cluster"))
    return Versions(found.get("whet", ""), code_digest(), found["python"], found["ray"])


@functools.cache
def code_digest() -> str:
    """12 hex digits of a SHA-256 of Whet's Python files."""
    root, digest = Path(settings.__file__).parents[1], hashlib.sha256()
    for folder, folders, files in os.walk(root, followlinks=True):  # a clone's rooms are links
        folders[:] = sorted(f for f in folders if f != "__pycache__")
        for file in sorted(files):
            if file.endswith(".py"):
                path = Path(folder, file)
                digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def refuse_mismatch(request: str, own: Versions, head: Versions) -> None:
    """Refuse a machine whose software is not the head's.

    Args:
        request: the user's words, for the error.
        own: of this machine.
        head: of the head; what is "" there is not compared.

    Raises:
        MeasureError: it differs.
    """
    pairs = (
        ("Whet", own.whet, head.whet),
        ("Python", own.python, head.python),
        ("Ray", own.ray, head.ray),
    )
    wrong = [
        f"{name} {mine} here, {its} on the head" for name, mine, its in pairs if its and mine != its
    ]
    if not wrong and head.code and own.code != head.code:
        wrong = [f"both are Whet {own.whet}, of other files: {own.code} here, {head.code} there"]
    if wrong:
        raise MeasureError(
            request,
            "; ".join(wrong),
            "what one machine builds, another measures: install the head's versions here, or "
            "this machine's there, and start the head again",
        )


def refuse_dashboard(joins: bool) -> None:
    """Refuse Ray's dashboard where it cannot be served.

    Args:
        joins: this machine joins a cluster.

    Raises:
        ArgumentError: the dashboard is the head's.
        MeasureError: its parts are not installed.
    """
    if joins:
        raise ArgumentError(
            "whet worker --address ... --dashboard",
            "the dashboard is the head's",
            "whet worker --dashboard, on the machine that is the head",
        )
    missing = [name for name in DASHBOARD if find_spec(name) is None]
    if missing:
        why = f"{', '.join(missing)} {'are' if missing[1:] else 'is'} not installed"
        raise MeasureError("whet worker --dashboard", why, install_extra("dashboard"))


def notes_on_machine() -> list[str]:
    """Lines on what makes measurements of this machine worse, or may end them."""
    notes = []
    try:
        governor = GOVERNOR.read_text().strip()
    except OSError:
        governor = ""  # a virtual machine: its host decides
    if governor not in ("", "performance"):
        notes.append(
            f"the frequency governor is {governor!r}: medians are steadier with 'performance' "
            "(cpupower frequency-set -g performance)"
        )
    folder = tempfile.gettempdir()
    if (free := shutil.disk_usage(folder).free) < ROOM_BYTES:
        notes.append(f"{folder} has only {free >> 20} MiB free; TMPDIR names another folder")
    return notes
