"""A PostgreSQL server of a test run's own: on loopback, in a temporary folder, gone at the end."""

from __future__ import annotations

import glob
import os
import pwd
import select
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

USER = "whet"
DATABASE = "whet"
STARTED_S, GONE_S = 60, 30
END = """
cat > /dev/null
pid=$(head -n 1 "$1/data/postmaster.pid" 2> /dev/null)
is_up() { [ -n "$pid" ] && [ "/proc/$pid/cwd" -ef "$1/data" ]; }
is_up "$1" && kill -QUIT "$pid"
left=400
while is_up "$1" && [ $left -gt 0 ]; do sleep 0.05; left=$((left - 1)); done
is_up "$1" && kill -KILL "$pid"
rm -rf "$1"
"""
"""Waits until nobody holds the other end of its input, which is when the test run closes it, or is
gone however it ended; then ends the server at once and removes its folder."""


def programs() -> Path | None:
    """The folder of ``initdb`` and ``pg_ctl`` of the newest version; None if there is none."""
    home = os.environ.get("POSTGRESQL_HOME", "/usr/lib/postgresql")
    found = sorted(glob.glob(f"{home}/*/bin/pg_ctl"), key=lambda path: float(path.split("/")[-3]))
    path = found[-1] if found else shutil.which("pg_ctl")
    return Path(path).resolve().parent if path else None


class PostgresServer:
    """A server with one database; it starts when the block begins.

    Its data is not synchronised to the disk, so it is for tests alone. Root may not run a server:
    the user ``postgres`` or ``nobody`` does then.

    Raises:
        FileNotFoundError: PostgreSQL is not installed.
        RuntimeError: it does not start; with the end of its log.
    """

    def __init__(self) -> None:
        found = programs()
        if found is None:
            raise FileNotFoundError("no PostgreSQL server; Debian: apt install postgresql")
        self.programs = found
        self.folder = Path(tempfile.mkdtemp(prefix="whet-postgres-", dir="/tmp"))
        self.as_user: list[str] = []
        if os.getuid() == 0:
            owner = next(u for u in pwd.getpwall() if u.pw_name in ("postgres", "nobody"))
            os.chown(self.folder, owner.pw_uid, owner.pw_gid)
            ids = (f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}")
            self.as_user = ["setpriv", *ids, "--clear-groups"]
        self.data = self.folder / "data"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        # In a session of its own it outlives what ends a run: SIGTERM, and Ctrl-C, which goes to
        # all of a terminal's processes. Forked off, it is none of the children that a test starts.
        self._end = subprocess.Popen(
            ["setsid", "--fork", "sh", "-c", END, "sh", str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",
            env=self._environment(),
        )
        self._end.wait()

    @property
    def url(self) -> str:
        """Where a log may be: ``postgresql://whet@127.0.0.1:PORT/whet``."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{DATABASE}"

    @staticmethod
    def _environment() -> dict[str, str]:
        """Of processes that are none of those that a test starts: these share a folder."""
        return {k: v for k, v in os.environ.items() if k != "TMPDIR"}

    def _run(self, name: str, *words: str) -> None:
        command = [*self.as_user, str(self.programs / name), *words]
        log = self.folder / f"{name}.log"
        with log.open("ab") as out:
            done = subprocess.run(
                command, stdout=out, stderr=out, cwd=self.folder, env=self._environment()
            )
        if done.returncode:
            logs = (path.read_text(errors="replace")[-2000:] for path in (log, self.log))
            raise RuntimeError(f"{name}: {' '.join(logs)}")

    @property
    def log(self) -> Path:
        """The text that the server writes."""
        path = self.folder / "server.log"
        path.touch()
        return path

    def __enter__(self) -> PostgresServer:
        try:
            self._run(
                "initdb", "-D", str(self.data), "-U", USER, "-A", "trust", "-E", "UTF8", "--no-sync"
            )
            self.start()
            where = ("-h", "127.0.0.1", "-p", str(self.port), "-U", USER)
            self._run("createdb", *where, DATABASE)
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        options = f"-p {self.port} -h 127.0.0.1 -k {self.folder} -F"
        if self.as_user:  # it writes beside its data, where it may
            subprocess.run(["chmod", "o+w", str(self.log)], check=True)
        words = ("-D", str(self.data), "-o", options, "-l", str(self.log), "-t", str(STARTED_S))
        self._run("pg_ctl", "start", "-w", *words)

    def stop(self, mode: str = "fast") -> None:
        """Stop the server.

        Args:
            mode: "fast" ends connections; "immediate" is a crash.
        """
        self._run("pg_ctl", "stop", "-w", "-D", str(self.data), "-m", mode)

    def restart(self) -> None:
        """Stop it and start it: whoever is connected loses the connection."""
        self.stop()
        self.start()

    def __exit__(self, *error: object) -> None:
        assert self._end.stdin is not None and self._end.stdout is not None
        with self._end.stdout as said:
            self._end.stdin.close()
            # It closes its end when it has ended; a process that a test forked may hold another.
            select.select([said], [], [], GONE_S)
