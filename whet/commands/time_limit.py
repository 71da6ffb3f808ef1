"""Work of a command that may not end: done in a process of its own, which can be ended."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, TypeVar

import click

from whet.compiler.errors import KernelError

Result = TypeVar("Result")
PATIENCE_SECONDS = 2.0


def within(seconds: float, what: str, work: Callable[[], Result]) -> Result:
    """The result of some work, if it is done in time; after two seconds a line says that it runs.

    Args:
        seconds: it may take.
        what: it is, for messages: ``"checking f<<<1, 32>>>()"``.
        work: without arguments; it may wait for ever, outside of Python as well.

    Raises:
        KernelError: it took longer, or its process died.
        Exception: what it raises.
    """
    # what a process that is ended cannot remove goes with the folder
    with tempfile.TemporaryDirectory(prefix="whet-", ignore_cleanup_errors=True) as folder:
        return _within(seconds, what, work, folder)


def _within(seconds: float, what: str, work: Callable[[], Result], folder: str) -> Result:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(work, theirs, folder), daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(min(PATIENCE_SECONDS, seconds)):
            if seconds > PATIENCE_SECONDS:
                click.echo(f"{what}: still running; --timeout ends it at {seconds:g} s", err=True)
            if seconds <= PATIENCE_SECONDS or not ours.poll(seconds - PATIENCE_SECONDS):
                raise KernelError(
                    what,
                    f"it did not end in {seconds:g} seconds",
                    "a loop without an end, or more work than that: fewer blocks or threads, "
                    "smaller arrays, --orders 1, or a longer --timeout",
                )
        returned, value = ours.recv()
    except EOFError:
        process.join()
        raise KernelError(
            what,
            f"its process died with {process.exitcode}",
            "of a pointer that is not looked at, maybe, or of a recursion without an end",
        ) from None
    finally:
        process.kill()
        process.join()
        ours.close()
    if not returned:
        raise value
    return value


def _run(work: Callable[[], Any], to: Connection, folder: str) -> None:
    tempfile.tempdir = os.environ["TMPDIR"] = folder
    try:
        said = True, work()
    except Exception as error:
        said = False, error
    to.send(said)
    to.close()
