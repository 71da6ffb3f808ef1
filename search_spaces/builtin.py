"""The table of built-in templates: their names, and where each is found when it is asked for."""

from __future__ import annotations

# name -> "module:attribute"; imported by get_template, so that `import whet` stays quick.
BUILTIN: dict[str, str] = {
    "matmul": "whet.search_spaces.cpu.matmul:matmul",
    "conv2d_nchw": "whet.search_spaces.cpu.conv2d_nchw:conv2d_nchw",
}
