"""A PostgreSQL server of a test run's own: on loopback, in a temporary folder, gone at the end."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

USER = "whet"
DATABASE = "whet"
STARTED_S = 60


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

    @property
    def url(self) -> str:
        """Where a log may be: ``postgresql://whet@127.0.0.1:PORT/whet``."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{DATABASE}"

    def _run(self, name: str, *words: str) -> None:
        command = [*self.as_user, str(self.programs / name), *words]
        log = self.folder / f"{name}.log"
        with log.open("ab") as out:
            done = subprocess.run(command, stdout=out, stderr=out, cwd=self.folder)
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
        if (self.data / "postmaster.pid").exists():
            self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)
