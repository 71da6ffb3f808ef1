"""Exporting a module: a shared library, an object or an archive that needs no Python to be called.

The file holds the kernels, the thread pool if one of them is parallel, the way to packed functions,
and the signatures as JSON, which are read as data and never evaluated.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whet.compiler import settings
from whet.compiler.errors import ArgumentError, ArtifactError

if TYPE_CHECKING:
    from whet.compiler.runtime.module import Module

FORMAT = 1
HEADER = "whet/runtime.h"
LINKED = (".so", ".o", ".tar")


def include_dir() -> str:
    """The folder to give to a C compiler, for ``#include <whet/runtime.h>``."""
    return str(Path(__file__).parent / "include")


def export_library(
    module: Module,
    file_name: str | os.PathLike[str],
    fcompile: Callable[..., Any] | None = None,
    addons: Sequence[str] | None = None,
    workspace_dir: str | None = None,
    fmt: str = "",
    **kwargs: Any,
) -> str:
    """:meth:`Module.export_library`; ``fmt`` is the format where the name does not end in it."""
    path = Path(file_name)
    suffix = f".{fmt}" if fmt else path.suffix
    asked = f"export_library({str(path)!r})"
    if not module.is_dso_exportable:
        raise ArtifactError(
            asked,
            f"a module of kind {module.type_key!r} holds no code of a CPU to link",
            "module.save() writes its source",
        )
    if fcompile is None and suffix not in LINKED:
        raise ArgumentError(
            asked, f"{suffix!r} is no format of a library", f"formats: {', '.join(LINKED)}"
        )
    if path.parent != Path() and not path.parent.is_dir():
        raise ArtifactError(asked, f"there is no folder {path.parent}")
    with tempfile.TemporaryDirectory(prefix="whet") as made:
        folder = Path(workspace_dir or made)
        folder.mkdir(parents=True, exist_ok=True)
        files = [*write_parts(module, folder), *map(str, addons or ())]
        # A library in use is replaced, not overwritten: what is loaded of it stays as it is.
        new = path.with_name(f".{path.name}.{os.getpid()}{suffix}")
        try:
            _make(fcompile, path.name, suffix, str(new), files, folder, kwargs)
            os.replace(new, path)
        finally:
            new.unlink(missing_ok=True)
    return str(path)


def _make(
    fcompile: Callable[..., Any] | None,
    name: str,
    suffix: str,
    output: str,
    files: Sequence[str],
    folder: Path,
    kwargs: dict[str, Any],
) -> None:
    if fcompile is not None:
        fcompile(output, files, **kwargs)
    elif suffix == ".tar":
        pack(output, files, folder)
    else:
        # Programs that are linked with it look for this name, wherever it stands then.
        options = [f"-Wl,-soname,{name}"] if suffix == ".so" else []
        options += kwargs.pop("options", None) or []
        compile_files(output, files, options, **kwargs)


def write_parts(module: Module, folder: Path) -> list[str]:
    """Write what a library is made of into a folder.

    Returns:
        The files that a C compiler links: the kernels' object, the pool's if there is one, and a C
        file. The header that this includes lies in the folder, too.
    """
    artifact = module.artifact
    kernels = folder / "kernels.o"
    kernels.write_bytes(artifact.object)
    files = [str(kernels)]
    parallel = b"whet_parallel_for" in artifact.object
    if parallel:
        pool = folder / "pool.o"
        pool.write_bytes(_pool_object(artifact.target))
        files.append(str(pool))
    library = folder / "library.c"
    library.write_text(library_source(metadata(module), parallel))
    header = folder / HEADER
    header.parent.mkdir(exist_ok=True)
    shutil.copyfile(Path(include_dir()) / HEADER, header)
    return [*files, str(library)]


def _pool_object(target: dict) -> bytes:
    from whet.compiler.codegen.llvm import jit, parallel
    from whet.compiler.target import Target, host

    options = {k: target[k] for k in ("mtriple", "mcpu", "mattr") if k in target}
    triple = str(target.get("mtriple", host.triple()))
    text = parallel.library_text(triple.split("-")[0])
    return jit.compile_text(text, Target({"kind": "llvm", **options}))


def metadata(module: Module) -> str:
    """What a library tells about itself, as JSON."""
    artifact = module.artifact
    return json.dumps(
        {
            "whet": FORMAT,
            "signatures": [s.to_json() for s in artifact.signatures],
            "target": artifact.target,
            "imports": [
                {
                    "target": m.artifact.target,
                    "source": m.artifact.source,
                    "signatures": [s.to_json() for s in m.artifact.signatures],
                }
                for m in module.imported_modules
            ],
        }
    )


def library_source(data: str, parallel: bool) -> str:
    """The C file of a library whose metadata is ``data``."""
    text = (Path(include_dir()) / "whet" / "library.c").read_text()
    escaped = [c if c.isalnum() or c in " _:,.+-*/%()[]{}<>=" else f"\\{ord(c):03o}" for c in data]
    lines = ["".join(escaped[k : k + 60]) for k in range(0, len(escaped), 60)]
    head = "#define WHET_PARALLEL\n" if parallel else ""
    return head + text + "\n".join(f'    "{line}"' for line in lines) + ";\n"


def pack(output: str, files: Iterable[str], folder: Path) -> None:
    """An archive of the parts of a library, to be linked where it is loaded."""
    with tarfile.open(output, "w") as archive:
        for file in files:
            archive.add(file, Path(file).name)
        archive.add(folder / HEADER, HEADER)


def compile_files(
    output: str,
    files: Iterable[str],
    options: Sequence[str] | None = None,
    cc: str | None = None,
) -> None:
    """Make a shared library, or for a name in ``.o`` one object, of objects and C files.

    Args:
        output: the file to write.
        files: what is linked.
        options: more options of the compiler.
        cc: the C compiler; ``CC`` or ``cc`` by default. That of another machine makes a library
            for it.

    Raises:
        ArtifactError: there is no C compiler, or it refuses.
    """
    compiler = cc or settings.c_compiler()
    files = list(files)
    include = next((str(Path(f).parent) for f in files if f.endswith("library.c")), include_dir())
    command = [*compiler.split(), "-O2", "-fPIC", "-std=gnu99", "-w", f"-I{include}", *files]
    if output.endswith(".o"):
        command += ["-r", "-nostdlib"]
    else:
        # Kernels of one name in two libraries do not get in each other's way; and the code of the
        # pool's threads must stay, even if somebody closes the library.
        command += ["-shared", "-Wl,-Bsymbolic-functions", "-Wl,-z,nodelete", "-pthread", "-lm"]
    command += [*(options or ()), "-o", output]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        raise ArtifactError(
            f"linking {output}",
            f"the C compiler {compiler!r} cannot be started: {error.strerror}",
            "install gcc or clang, set CC, or pass fcompile; a .tar needs no compiler",
        ) from None
    if done.returncode != 0:
        raise ArtifactError(
            f"linking {output}", f"{compiler} ended with {done.returncode}", done.stderr.strip()
        )
