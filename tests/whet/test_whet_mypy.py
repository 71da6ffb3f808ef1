"""mypy really checks the rooms: an error planted in each of them is found through the links."""

from __future__ import annotations

import subprocess
import sys

PLANTED = '\n\ndef planted(n: int) -> str:\n    """Wrong on purpose."""\n    return n\n'
WHERE = (
    "whet/front.py",
    "compiler/te/trace_steps.py",
    "search_spaces/plain.py",
    "measure/wire.py",
    "db/identity.py",
    "autotune/task.py",
)


def test_planted_errors_are_found(checkout, tmp_path):
    for file in WHERE:
        path = checkout / file
        path.write_text(path.read_text() + PLANTED)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path / "cache")],
        cwd=checkout,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    found = {
        line.split(":")[0]
        for line in done.stdout.splitlines()
        if 'Incompatible return value type (got "int", expected "str")' in line
    }
    assert found == {file if file.startswith("whet/") else f"whet/{file}" for file in WHERE}
