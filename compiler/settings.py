"""Every environment variable that Whet reads, with its default.

Nothing else looks at the environment.

| variable | default | meaning |
| --- | --- | --- |
| ``WHET_NUM_THREADS`` | physical cores this process may use | threads of a parallel loop |
"""

from __future__ import annotations

import os

from whet.compiler.errors import TargetError


def num_threads() -> int | None:
    """``WHET_NUM_THREADS`` as a number, or None when it is not set.

    Raises:
        TargetError: it is set to something that is not a whole number of at least 1.
    """
    text = os.environ.get("WHET_NUM_THREADS", "").strip()
    if not text:
        return None
    if not text.isdigit() or int(text) < 1:
        raise TargetError(
            f"WHET_NUM_THREADS={text}",
            "the number of threads must be a whole number of at least 1",
            "unset it to use one thread a physical core",
        )
    return int(text)
