"""Exporting a module: a shared library, an object or an archive that needs no Python to be called.

The file holds the kernels, the thread pool if one of them is parallel, the way to packed functions,
and the signatures as JSON, which are read as data and never evaluated. A GPU's code is in the JSON,
too; where there is no other, an archive is nothing but that.
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
from whet.compiler.runtime.library.gpu_code import code_as_data
from whet.compiler.runtime.library.integrity import seal
from whet.compiler.runtime.library.source import path_of

if TYPE_CHECKING:
    from whet.compiler.runtime.module import Module

FORMAT = 3
READ = (2, FORMAT)  # in 2, extents are texts
HEADER = "whet/runtime.h"
METADATA = "metadata.json"  # of an archive with nothing to link
LINKED = (".so", ".o", ".tar")


def include_dir() -> str:
    """The folder to give to a C compiler, for ``#include <whet/runtime.h>``."""
    return str(Path(__file__).parents[1] / "include")


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
    path = path_of(f"export_library({file_name!r})", file_name)
    suffix = f".{fmt}" if fmt else path.suffix
    request = f"export_library({str(path)!r})"
    source = None if fcompile or addons or workspace_dir or kwargs else _copied(module, suffix)
    if source is None and not any(m.is_dso_exportable or m.artifact.plans for m in module._all()):
        raise ArtifactError(request, *module._why_not_linked())
    _check_options(request, suffix, fcompile, kwargs)
    check_place(request, path)
    if source is not None:
        _replace(path, suffix, lambda new: shutil.copyfile(source, new))
        return str(path)
    parts = linked_modules(request, module)
    if fcompile is None and suffix != ".tar":
        _check_compiler(parts, request, kwargs.get("cc"))
    with tempfile.TemporaryDirectory(prefix="whet") as made:
        folder = _made_folder(request, workspace_dir) if workspace_dir else Path(made)
        if suffix == ".tar" and not (parts or addons or fcompile):
            file = folder / METADATA
            file.write_text(metadata(module))
            files = [str(file)]
        else:
            files = [*write_parts(module, parts, folder), *map(str, addons or ())]

        def write(new: Path) -> None:
            if fcompile is not None:
                fcompile(str(new), files, **kwargs)
            elif suffix == ".tar":
                pack(str(new), files, folder)
            else:
                # Programs that are linked with it look for this name, wherever it stands then.
                options = [f"-Wl,-soname,{path.name}"] if suffix == ".so" else []
                options += kwargs.pop("options", None) or []
                compile_files(str(new), files, options, **kwargs)
            if not new.is_file():
                raise ArtifactError(
                    request,
                    "fcompile wrote no file",
                    "it writes the file that its first argument names",
                )
            if fcompile is None:
                seal(new)

        _replace(path, suffix, write)
    return str(path)


def _replace(path: Path, suffix: str, make: Callable[[Path], object]) -> None:
    """Make a file: one in use is replaced, not overwritten; what is loaded of it stays as it is."""
    new = path.with_name(f".{path.name}.{os.getpid()}{suffix}")
    try:
        make(new)
        os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)


def _copied(module: Module, suffix: str) -> Path | None:
    """The file that a module was loaded from, if its machine code is there and nowhere else."""
    origin = module.origin
    if origin is None or origin.suffix != suffix or not origin.holds(module):
        return None
    return origin.path if any(map(_is_linked, module._all())) else None


def _is_linked(one: Module) -> bool:
    """True where a module's machine code is in a file that it was loaded from, and not at hand."""
    return not one.artifact.object and not one.artifact.source and not one.launches_only


def _check_compiler(parts: Sequence[Module], request: str, cc: str | None) -> None:
    """Refuse to link code for another processor with this machine's compiler."""
    from whet.compiler.target.machine import host

    target = parts[0].artifact.target if parts else {}
    made_for = str(target.get("mtriple", host.triple())).split("-")[0]
    if cc is None and not os.environ.get("CC") and made_for != host.architecture():
        raise ArtifactError(
            request,
            f"its code is for {made_for}, and the C compiler {settings.c_compiler()!r} is for "
            f"{host.architecture()}",
            f"pass cc='{made_for}-linux-gnu-gcc', or write a .tar, which is linked where it is "
            "loaded",
        )


def _check_options(
    request: str, suffix: str, fcompile: Callable[..., Any] | None, kwargs: dict[str, Any]
) -> None:
    if fcompile is not None:
        if not callable(fcompile):
            raise ArgumentError(request, f"fcompile is a function, not {fcompile!r}")
        return
    if suffix not in LINKED:
        raise ArgumentError(
            request, f"{suffix!r} is no format of a library", f"formats: {', '.join(LINKED)}"
        )
    unknown = [name for name in kwargs if name not in ("options", "cc")]
    if unknown:
        raise ArgumentError(
            request, f"the C compiler is given no {unknown[0]!r}", "it is given: options, cc"
        )
    options = kwargs.get("options") or ()
    if isinstance(options, str) or not all(isinstance(o, str) for o in options):
        raise ArgumentError(request, f"options is a list of texts, not {options!r}", '["-g"]')


def check_place(request: str, path: Path) -> None:
    """Refuse a name that no file can have.

    Raises:
        ArtifactError: its folder is missing, or it is a folder itself, a device or a pipe.
    """
    if not path.parent.is_dir():
        raise ArtifactError(request, f"there is no folder {path.parent}", "make it first")
    if path.is_dir():
        raise ArtifactError(request, "it is a folder", "give the name of a file in it")
    if path.exists() and not path.is_file():  # a file would take its place
        raise ArtifactError(request, "it is a device or a pipe", "give the name of a file")


def _made_folder(request: str, workspace_dir: str) -> Path:
    folder = path_of(request, workspace_dir)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArtifactError(
            request,
            f"the folder {folder} cannot be made: {error.strerror}",
            "another workspace_dir",
        ) from None
    return folder


def linked_modules(request: str, module: Module) -> list[Module]:
    """A module and what it imports, as far as there is a CPU's machine code.

    Raises:
        ArtifactError: they are for several processors, two of them have a function of one name, or
            one was loaded from a file, so that its machine code is not at hand.
    """
    found: list[Module] = []
    names: set[str] = set()
    for one in dict.fromkeys(module._all()):
        made, own = one.artifact, [s.name for s in one.artifact.signatures]
        if _is_linked(one):
            which = "module" if one is module else "imported module"
            same = module.origin.suffix if module.origin else ""
            raise ArtifactError(
                request,
                f"the {which} of {', '.join(own)} holds no code that can be linked",
                "export and import what build() made, not what load_module() loaded"
                + (f"; a {same} file as the one that was loaded can be written" if same else "")
                + (", as long as that is there, without further arguments" if same else ""),
            )
        if not one.is_dso_exportable:
            continue
        first = found[0].artifact if found else made
        if _processor(made.object) != _processor(first.object):
            which = "the module itself" if found[0] is module else "another one"
            raise ArtifactError(
                request,
                f"a library is for one processor: the imported module of {', '.join(own)} was made "
                f"for {made.target.get('mtriple', 'this machine')}, {which} for "
                f"{first.target.get('mtriple', 'this machine')}",
                "export each of module.imported_modules to a file of its own",
            )
        twice = [name for name in own if name in names]
        if twice:
            raise ArtifactError(
                request,
                f"two of its modules have a function {twice[0]!r}",
                "give them different names: lower(..., name=...)",
            )
        names.update(own)
        found.append(one)
    return found


def _processor(code: bytes) -> bytes:
    """The processor in an object's header: of ELF the class, byte order and machine."""
    return code[4:6] + code[18:20] if code[:4] == b"\x7fELF" else code[:4]


def write_parts(module: Module, parts: Sequence[Module], folder: Path) -> list[str]:
    """Write what a library is made of into a folder.

    Args:
        module: what is exported.
        parts: of it and what it imports, the modules with machine code.
        folder: where to.

    Returns:
        The files that a C compiler links: the kernels' objects, the pool's if there is one, and a C
        file. The header that this includes lies in the folder, too.
    """
    files: list[str] = []
    for k, part in enumerate(parts):
        kernels = folder / f"kernels{k or ''}.o"
        kernels.write_bytes(part.artifact.object)
        files.append(str(kernels))
    parallel = [p.artifact for p in parts if b"whet_parallel_for" in p.artifact.object]
    if parallel:
        pool = folder / "pool.o"
        pool.write_bytes(_pool_object(parallel[0].target))
        files.append(str(pool))
    library = folder / "library.c"
    library.write_text(library_source(metadata(module), bool(parallel)))
    header = folder / HEADER
    header.parent.mkdir(exist_ok=True)
    shutil.copyfile(Path(include_dir()) / HEADER, header)
    return [*files, str(library)]


def _pool_object(target: dict) -> bytes:
    from whet.compiler.jit.compile import compile_text
    from whet.compiler.runtime.library.thread_pool import library_text
    from whet.compiler.target import Target
    from whet.compiler.target.llvm_machine import machine_of
    from whet.compiler.target.machine import host

    options = {k: target[k] for k in ("mtriple", "mcpu", "mattr") if k in target}
    triple = str(target.get("mtriple", host.triple()))
    text = library_text(triple.split("-")[0])
    return compile_text(text, machine_of(Target({"kind": "llvm", **options})))


def metadata(module: Module) -> str:
    """The metadata of a library, as JSON."""
    return json.dumps({"whet": FORMAT, **_described(module)})


def _described(module: Module) -> dict[str, Any]:
    artifact, linked = module.artifact, module.is_dso_exportable
    own = {s.name for s in artifact.signatures}
    return {
        "signatures": [s.to_json() for s in artifact.signatures],
        "target": artifact.target,
        "linked": linked,
        "tuned_by": {name: by.to_json() for name, by in artifact.tuned_by.items()},
        "source": "" if linked else artifact.source,
        # of code for a GPU: how its functions launch its kernels, what these take, and the code
        "plans": [plan.to_json() for plan in artifact.plans],
        "kernels": [k.to_json() for k in artifact.kernels],
        **code_as_data(artifact),
        # functions that it has beside its own: those of its imports, and what launches kernels
        "others": [f.signature.to_json() for n, f in module._functions.items() if n not in own],
        "imports": [_described(m) for m in module.imported_modules],
    }


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
        if (folder / HEADER).exists():
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
        # what a compiler quotes of a damaged file is no text in any encoding
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
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
