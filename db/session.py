"""A search that shares its log: what it measures is claimed, and it shows that it is alive.

Each session's row has a counter, which its own thread raises every :data:`BEAT_S`. Another session
takes it for dead once it has itself seen no change for :data:`LEASE_S` of its own monotonic clock;
or at once, where it can see that the process has ended. No two clocks are ever compared.
"""

from __future__ import annotations

import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import LogError
from whet.db.store.processes import Process
from whet.db.values.claims import Answer, TaskKey
from whet.db.values.identity import clean_text, config_digest
from whet.db.values.records import TrialEntry
from whet.measure.values import Json
from whet.search_spaces.values import Config

if TYPE_CHECKING:
    import sqlalchemy as sa

    from whet.db.log import TuningLog

BEAT_S = 5.0
"""Seconds between two beats, and between two looks at the others'."""
LEASE_S = 30.0
"""Seconds without a beat after which a session is taken for dead."""
JOIN_S = 5.0
"""Seconds for which the end of a session waits for a beat that is under way."""

_over: set[str] = set()
"""Sessions of this process that have ended, and of which no log could be told."""


class Watch:
    """Who has not beaten for how long, as one observer saw it.

    Args:
        observer: its process.
        clock: its seconds.
    """

    def __init__(self, observer: Process, clock: Callable[[], float] = time.monotonic) -> None:
        self.observer, self.clock = observer, clock
        self._last: float | None = None
        self._still: dict[int, tuple[int, float]] = {}

    def dead(self, rows: Iterable[Any]) -> list[Any]:
        """The running sessions that are dead; to be called once a beat."""
        from whet.db.store.claims import process_of

        now = self.clock()
        # Where the database was away, nobody could beat: a long step says no more than two beats.
        step = 0.0 if self._last is None else min(now - self._last, 2 * BEAT_S)
        self._last = now
        before, self._still = self._still, {}
        dead = []
        for row in rows:
            beat, still = before.get(row.id, (row.beat, 0.0))
            still = still + step if beat == row.beat else 0.0
            self._still[row.id] = (row.beat, still)
            over = row.uid in _over or process_of(row).is_gone(self.observer)
            if over or still >= LEASE_S:
                dead.append(row)
        return dead


class _Heart:
    """The thread of a session: its beats, and the end of the dead.

    It holds no session, so that one which nobody holds any more ends.
    """

    def __init__(self, log: TuningLog, session_id: int, watch: Watch) -> None:
        self.log, self.session_id, self.watch = log, session_id, watch
        self.stop, self.returned = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.run, name="whet session", daemon=True)

    def run(self) -> None:
        while not self.stop.wait(BEAT_S):
            # A beat that cannot be written is left out: the next one will do.
            with suppress(LogError):
                self.beat()
            with suppress(LogError):
                self.look()

    def beat(self) -> None:
        from whet.db.store import claims

        def write(connection: sa.Connection) -> bool:
            return not self.stop.is_set() and claims.beat(connection, self.session_id)

        if self.log.write("show that a search is alive", write, at_once=True):
            self.returned.set()

    def look(self) -> None:
        """End the sessions that are dead."""
        from whet.db.store import claims

        rows = self.log.read("read the searches", claims.running_sessions, at_once=True)
        for row in self.watch.dead(row for row in rows if row.id != self.session_id):

            def end(connection: sa.Connection, row: Any = row) -> None:
                claims.end_session(connection, row.id, claims.GONE, row.beat)

            self.log.write("end the claims of a dead search", end, at_once=True)


def _give_up(stop: threading.Event, uid: str) -> None:
    """End the thread of a session that nobody holds any more."""
    if not stop.is_set():
        stop.set()
        _over.add(uid)


class LogSession:
    """A search that shares a log with others; from :meth:`whet.db.TuningLog.open_session`.

    ``with`` closes it. A process that is killed leaves it, and the others end it.

    Args:
        log: an open log.
        label: says who searches what, to people: JSON-able data.

    Attributes:
        log: the log.
        uid: its name.

    Raises:
        LogError: the log cannot be written.
    """

    def __init__(self, log: TuningLog, label: Json) -> None:
        from whet.db.store import claims

        self.log, self.uid = log, uuid.uuid4().hex
        self._process = Process.this()
        _over.add(self.uid)  # until it has begun: its row may be there though no answer came
        self._id: int = log.write(
            "open a session",
            lambda connection: claims.insert_session(connection, self.uid, self._process, label),
        )
        _over.discard(self.uid)
        self._heart = _Heart(log, self._id, Watch(self._process))
        weakref.finalize(self, _give_up, self._heart.stop, self.uid)
        with suppress(LogError):
            self._heart.look()  # so that a search that goes on at once finds its claims free
        self._heart.thread.start()

    def __repr__(self) -> str:
        return f"LogSession({self.log.location!r}, {self.uid!r})"

    def __enter__(self) -> LogSession:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        self.close("finished" if kind is None else "failed")

    def reserve(self, run_id: int, number: int, config: Config, total: int | None = None) -> Answer:
        """Claim a config, before it is measured.

        Claimed again for the same run and number, it is still :class:`~whet.db.values.claims.Mine`.

        Args:
            run_id: from :meth:`~whet.db.TuningLog.start_run`.
            number: the trial's number in the run.
            config: the candidate.
            total: configs of the task that all searches together try; None: any number.

        Returns:
            ``Recorded`` with the result of an earlier trial, else ``Taken`` by another that is
            alive, else ``Full`` where ``total`` is reached, else ``Mine``.

        Raises:
            LogError: no such run; the config is of another space; the log cannot be written.
        """
        return self.reserve_all([(run_id, number, config)], total)[0]

    def reserve_all(
        self,
        wanted: Sequence[tuple[int, int, Config]],
        total: int | None = None,
        together: Iterable[TaskKey] = (),
    ) -> list[Answer]:
        """:meth:`reserve` for several configs, of one or many tasks, in one transaction.

        Args:
            wanted: for each its run, the trial's number in it, and the config; all different.
            total: configs that all searches together try, of all these tasks together.
            together: other tasks whose configs count for ``total``.

        Returns:
            An answer to each, in order.

        Raises:
            LogError: as of :meth:`reserve`.
        """
        return self.exchange((), wanted, total, together)[1]

    def exchange(
        self,
        entries: Sequence[TrialEntry],
        wanted: Sequence[tuple[int, int, Config]],
        total: int | None = None,
        together: Iterable[TaskKey] = (),
    ) -> tuple[list[TrialEntry], list[Answer]]:
        """:meth:`add_trials`, then :meth:`reserve_all`, in one transaction: all or none.

        Returns: the entries that were left out; an answer to each claim.
        """
        from whet.db.store import batches, claims, queries

        if not wanted:
            return self.add_trials(entries), []
        others = list(together)

        def request(run_id: int, number: int) -> str:
            return f"claim trial {number} of run {run_id}"

        def write(connection: sa.Connection) -> tuple[list[TrialEntry], list[Answer]]:
            keys = self.log.recorder.keys_of(connection, entries)
            for run_id, number, config in wanted:
                if run_id not in keys:
                    asked = request(run_id, number)
                    keys[run_id] = self.log.recorder.keys(connection, run_id, asked)
                batches.check_space(request(run_id, number), config, keys[run_id])
            made = [
                claims.Claim(self._id, run_id, number, config_digest(config))
                for run_id, number, config in wanted
            ]
            named = [
                queries.conditions(connection, t.workload, t.target, t.device, t.fingerprint)
                for t in others
            ]
            tasks = [one for one in named if one is not None]
            # All at once, before anything is written: two searches would wait in a circle.
            locked = batches.lock_tasks(connection, keys.values(), tasks)
            left_out = batches.insert_trials(connection, entries, keys, True, locked)
            answers = claims.insert_claims(
                connection, made, keys, self._process, total, tasks, locked
            )
            return left_out, answers

        doing = entries[0].request if entries else request(*wanted[0][:2])
        return self.log.write(doing, write)

    def rank(self, tasks: Iterable[str]) -> int:
        """The number of running sessions, begun before this one, that search a task of its own.

        Args:
            tasks: names of tasks, as the sessions' labels have them under ``"tasks"``.
        """
        from whet.db.store import claims

        mine = set(tasks)
        rows = self.log.read("read the searches", claims.running_sessions)
        before = [row.label for row in rows if row.id < self._id and isinstance(row.label, dict)]
        named = [label.get("tasks") for label in before]
        return sum(
            any(isinstance(name, str) and name in mine for name in names)
            for names in named
            if isinstance(names, list)
        )

    def has_returned(self) -> bool:
        """True once after this session was taken for dead: its claims are ended, and may be made
        again."""
        if not self._heart.returned.is_set():
            return False
        self._heart.returned.clear()  # only where it was set: it may be set at any moment
        return True

    def release(self, run_id: int, configs: Sequence[Config]) -> None:
        """Give claims up: the configs were not measured, and others may.

        Args:
            run_id: the run for which they were claimed.
            configs: those that are not claimed by this session are left alone.

        Raises:
            LogError: no such run, or the log cannot be written.
        """
        from whet.db.store import claims

        request = f"give up claims of run {run_id}"
        digests = [config_digest(config) for config in configs]

        def write(connection: sa.Connection) -> None:
            keys = self.log.recorder.keys(connection, run_id, request)
            claims.delete_claims(connection, self._id, keys, digests)

        self.log.write(request, write)

    def add_trials(self, entries: Sequence[TrialEntry]) -> list[TrialEntry]:
        """Record trials and end their claims, in one transaction: all or none.

        Where this session was taken for dead meanwhile, another may have measured the config: the
        result that was recorded first stays.

        Returns:
            The entries that were not recorded, because another search had recorded their configs.

        Raises:
            LogError: as :meth:`whet.db.TuningLog.add_trials`.
        """
        return self.log.recorder.insert(entries, drop_recorded=True)

    def close(self, state: str = "finished") -> None:
        """End the session and what it still claims; again changes nothing.

        Args:
            state: how it ended, such as ``"finished"``, ``"interrupted"`` or ``"failed"``.

        Raises:
            LogError: the log cannot be written. Its claims end then as a dead process's do; for
                the next session of this process at once.
        """
        from whet.db.store import claims

        if self._heart.stop.is_set():
            return
        _give_up(self._heart.stop, self.uid)
        self._heart.thread.join(JOIN_S)
        self.log.write(
            "end a session",
            lambda connection: claims.end_session(connection, self._id, clean_text(state)),
        )
        _over.discard(self.uid)
