"""Where NVIDIA's driver library is on machines whose loader does not look there.

Containers and WSL have it in folders of their own, which NVIDIA's tools put on the loader's path,
and other ways to start a process do not. `scripts/gpu_check` runs this file by itself, before Whet
can be imported: it imports nothing of it.
"""

from __future__ import annotations

from pathlib import Path

NAME = "libcuda.so.1"
FOLDERS = (
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib/wsl/lib",
    "/run/opengl-driver/lib",
    "/usr/local/cuda/compat",
)
"""The last one is a toolkit's, for drivers older than it: taken where there is no other."""


def folder_of_driver() -> Path | None:
    """The first folder that has the driver's library; None: there is none."""
    return next((Path(f) for f in FOLDERS if Path(f, NAME).exists()), None)


def not_looked_in(folder: Path) -> tuple[str, str]:
    """The reason that keeps a process from a driver in a folder, and the way out."""
    return (
        f"NVIDIA's driver is in {folder}, where the system's loader does not look for {NAME}",
        f"export LD_LIBRARY_PATH={folder}:$LD_LIBRARY_PATH before Python starts; for all "
        f"processes: echo {folder} | sudo tee /etc/ld.so.conf.d/nvidia.conf && sudo ldconfig",
    )
