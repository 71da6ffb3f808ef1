"""A PostgreSQL server of one's own, which can be stopped and started."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path

BIN = Path(os.environ.get("WHET_TEST_POSTGRES_BIN", "/usr/lib/postgresql/15/bin"))
MISSING = "no PostgreSQL server: set WHET_TEST_POSTGRES_BIN to the folder of its programs"


def available() -> bool:
    """True where a server can be started."""
    return (BIN / "initdb").exists() and (os.geteuid() != 0 or shutil.which("setpriv") is not None)


class Server:
    """A server on loopback, in a folder of its own.

    Args:
        folder: where its data are kept; it is made.
    """

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.data, self._env = folder / "data", {"PATH": os.environ["PATH"], "LC_ALL": "C"}
        self._as: list[str] = []
        folder.mkdir(parents=True)
        if os.geteuid() == 0:  # a server refuses to run as root
            shutil.chown(folder, "postgres", "postgres")
            who = ["--reuid=postgres", "--regid=postgres", "--clear-groups"]
            self._as = ["setpriv", *who]
        self._run(
            "initdb",
            "-D",
            str(self.data),
            "-A",
            "trust",
            "-U",
            "postgres",
            "--no-sync",
            "-E",
            "UTF8",
        )
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        self.start()

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._as, str(BIN / program), *arguments]
        done = subprocess.run(
            command,
            cwd="/",
            env=self._env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr.decode()

    def start(self) -> None:
        """Start it; returns when it answers."""
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -k '' "
        log = str(self.data / "log")
        self._run(
            "pg_ctl", "-D", str(self.data), "-o", options, "-l", log, "-t", "120", "-w", "start"
        )

    def stop(self, mode: str = "immediate") -> None:
        """Stop it, by default without a word to anybody, as a machine that loses its power."""
        self._run("pg_ctl", "-D", str(self.data), "-m", mode, "-t", "120", "-w", "stop")

    def is_up(self) -> bool:
        """True if it runs."""
        return (self.data / "postmaster.pid").exists()
