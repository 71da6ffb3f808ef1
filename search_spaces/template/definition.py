"""Templates: functions that say what to compute and which programs are worth trying."""

from __future__ import annotations

import functools
import inspect
import threading
from collections import OrderedDict
from collections.abc import Callable
from importlib import import_module
from typing import Any

from whet.compiler.errors import SpaceError, nearest
from whet.compiler.target import Target
from whet.search_spaces.knobs.source import source_hash, source_text
from whet.search_spaces.space.config_space import ConfigSpace
from whet.search_spaces.template.canonical import Canonical, canonical_form
from whet.search_spaces.template.collect import collect
from whet.search_spaces.template.config_scope import ConfigView, resolved_in_force, talking_to
from whet.search_spaces.template.ref import (
    TemplateRef,
    attribute_of,
    importable,
    keep,
    kept,
    ref_of,
    unpickle,
)
from whet.search_spaces.values import Config, Workload
from whet.search_spaces.values.registry import list_templates, register, registered

# Spaces can be large and a long run may touch many shapes.
_SPACES_KEPT = 128


class Template:
    """A registered template; :func:`template` makes it. Calling it gives ``(schedule, args)``.

    Attributes:
        name: the name it is registered under.
        version: to be raised by hand when a change should retire the records made before it.
        func: the function.
        canonical: what gives several spellings of the same arguments one form, or None.
        source_hash: hex digits of the function's source.
        signature: the function's; all of its parameters are positional.
    """

    def __init__(
        self,
        name: str,
        func: Callable[..., Any],
        version: int = 1,
        canonical: Canonical | None = None,
    ) -> None:
        self.name = name
        self.version = version
        self.func = func
        self.canonical = canonical
        self.source_text = source_text(func)
        self.source_hash = source_hash(func)
        self.signature = _positional_signature(name, func)
        self._spaces: OrderedDict[tuple[str, str, str], ConfigSpace] = OrderedDict()
        self._lock = threading.Lock()
        functools.update_wrapper(self, func)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the template under the config in force.

        That is :func:`using_config`'s, else what :func:`using_resolver`'s resolver says, else the
        default of the template's space.

        Returns:
            ``(schedule, args)``: the schedule, whose ``tuned_by`` says which record the config is
            of, and the tensors that the kernel takes.

        Raises:
            SpaceError: wrong arguments, or a config that does not fit. Other errors are the
                template's.
        """
        from whet.compiler.te.schedule import Schedule  # of which reading a log has no need

        workload = self.workload(*args, **kwargs)
        resolved = resolved_in_force(workload)
        made = self.instantiate(workload, resolved.config)
        if isinstance(made[0], Schedule):
            made[0].tuned_by = resolved.tuned_by
        return made

    def workload(self, *args: Any, **kwargs: Any) -> Workload:
        """The workload of these arguments: defaults filled in, then in their canonical form.

        Raises:
            SpaceError: keyword arguments, arguments that do not match the signature, or that JSON
                cannot hold; a ``canonical`` that fails. Its WhetErrors are passed on.
        """
        request = f"template {self.name!r}"
        usage = f"{self.name}{self.signature}"
        if kwargs:
            raise SpaceError(
                request,
                f"keyword arguments are not taken: {', '.join(kwargs)}",
                f"a workload's arguments are positional: {usage}",
            )
        try:
            bound = self.signature.bind(*args)
        except TypeError as error:
            raise SpaceError(
                request, f"{error} ({len(args)} arguments were given)", f"it takes {usage}"
            ) from None
        bound.apply_defaults()
        given = Workload(self.name, bound.args)
        return given if self.canonical is None else canonical_form(self.canonical, given, usage)

    def space(self, workload: Workload, level: str = "full") -> ConfigSpace:
        """The space of a workload; see :func:`space_of`.

        Args:
            workload: the template's name and arguments.
            level: ``"full"``; ``"quick"``: a part of it with the same fingerprint, see
                :meth:`ConfigSpace.at_level`.
        """
        workload = self.workload(*workload.args)
        target = Target.current()
        # Candidate lists may follow the target in force, e.g. its vector width.
        key = (workload.key, "" if target is None else target.key, level)
        with self._lock:
            if key in self._spaces:
                self._spaces.move_to_end(key)
                return self._spaces[key]
        if level == "full":
            space = collect(self, workload)
        else:
            space = self.space(workload).at_level(level)
        with self._lock:
            space = self._spaces.setdefault(key, space)
            while len(self._spaces) > _SPACES_KEPT:
                self._spaces.popitem(last=False)
        return space

    def instantiate(self, workload: Workload, config: Config | None) -> Any:
        """``(schedule, args)`` of a workload under a config (None: the default)."""
        space = self.space(workload)
        is_fallback = config is None
        if config is None:
            config = space.default
        else:
            space.check(config)
        view = ConfigView(config, space, is_fallback)
        with talking_to(view):
            result = self.run(workload, f"while template {workload} ran with config {config}")
        request = f"template {workload} with config {view.config}"
        missing = [name for name in space.knobs if name not in view.defined]
        if missing or view.constraints != len(space.constraints):
            number = f"set {view.constraints} constraints, not {len(space.constraints)},"
            what = f"did not define the knobs {', '.join(missing)}" if missing else number
            raise SpaceError(
                request,
                f"it {what} this time",
                "a template must define the same knobs whatever the config is",
            )
        if view.errors:
            raise SpaceError(request, "; ".join(view.errors), "the template says so by raise_error")
        return result

    ref = ref_of

    def run(self, workload: Workload, note: str) -> tuple[Any, list[Any]]:
        """Call the function and look at what it returns.

        Args:
            workload: its arguments.
            note: added to what it raises.

        Raises:
            SpaceError: it did not return ``(schedule, [tensors])``. Other errors are its own.
        """
        try:
            result = self.func(*workload.args)
        except Exception as error:
            error.add_note(note)
            raise
        if (
            not isinstance(result, tuple)
            or len(result) != 2
            or not isinstance(result[1], list | tuple)
        ):
            raise SpaceError(
                f"template {workload}",
                f"it returned a {type(result).__name__}",
                "a template returns (schedule, [tensors])",
            )
        return result[0], list(result[1])

    def version_now(self) -> int:
        """The version of what runs for the target in force: rules of a kind have their own."""
        return int(getattr(self.func, "version", self.version))

    def __reduce_ex__(self, protocol: Any) -> Any:
        """By name where the module can be imported; pickle would look for the bare function."""
        if importable(self):
            return resolve, (self.ref(),)
        return super().__reduce_ex__(protocol)

    def __getstate__(self) -> dict:
        """Another process collects its own spaces."""
        state = self.__dict__.copy()
        del state["_spaces"], state["_lock"]
        return state

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state, _spaces=OrderedDict(), _lock=threading.Lock())

    def __repr__(self) -> str:
        return f"<template {self.name!r} {self.signature}>"


def template(
    name: str, *, version: int = 1, canonical: Canonical | None = None
) -> Callable[[Callable[..., Any]], Template]:
    """Decorator that makes a function a template and registers it under ``name``.

    Args:
        name: the template's name, for workloads and records.
        version: raise it when a change should retire the records made before it.
        canonical: a function from the tuple of arguments, defaults filled in, to the same tuple in
            one canonical form (an int as a pair, ...), so that several spellings of one computation
            are one workload with one set of records. It must return a canonical tuple as it is.

    The function takes positional arguments that JSON can hold, builds its compute, asks
    ``get_config()`` for its knobs, and returns ``(schedule, [tensors])``.

    Raises:
        SpaceError: the name is taken by another function, the version is not an int, ``canonical``
            is no function, or the function's signature has keyword-only arguments.
    """
    if not isinstance(name, str) or not name:
        raise SpaceError(
            f"@template({name!r})",
            "a template needs a name",
            'write @template("some/name") above the function',
        )
    if type(version) is not int:
        raise SpaceError(f"@template({name!r})", f"version={version!r} must be an int")
    if canonical is not None and not callable(canonical):
        raise SpaceError(
            f"@template({name!r})",
            f"canonical={canonical!r} is not a function",
            "it takes the tuple of the template's arguments and returns it in canonical form",
        )

    def decorate(func: Callable[..., Any]) -> Template:
        made = Template(name, func, version, canonical)
        register(made)
        return made

    return decorate


def get_template(name: str) -> Template:
    """The template of this name; built-in ones are imported when first asked for.

    Raises:
        SpaceError: there is none; names the nearest spelling and the templates there are.
    """
    found = registered(name)
    if found is not None:
        return found
    known = list_templates()
    raise SpaceError(
        f"template {name!r}",
        "there is none of this name",
        f"{nearest(name, known)}templates: {', '.join(known)}\n"
        "one of your own is known once the module that defines it is imported: on the command line "
        "by --module kernels.py, or in a task: kernels.py:task",
    )


def space_of(workload: Workload) -> ConfigSpace:
    """The space of a workload: what its template defines when it is run to collect it.

    The result is kept per workload and target in force; treat it as read-only.

    Raises:
        SpaceError: an unknown template, wrong arguments, or a template that raises for its default
            config. WhetErrors of the template are passed on.
    """
    return get_template(workload.template).space(workload)


def instantiate(workload: Workload, config: Config | None) -> Any:
    """The ``(schedule, args)`` of a workload under a config; None: the default one.

    Raises:
        SpaceError: an unknown template, wrong arguments, a config that is not of the workload's
            space, or a template that defines other knobs than when its space was collected.
            Other errors are the template's, with a note that names the config.
    """
    return get_template(workload.template).instantiate(workload, config)


def _positional_signature(name: str, func: Callable[..., Any]) -> inspect.Signature:
    if not callable(func):
        raise SpaceError(f"@template({name!r})", f"{func!r} is not a function")
    signature = inspect.signature(func)
    refused = [
        parameter.name
        for parameter in signature.parameters.values()
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD)
    ]
    if refused:
        raise SpaceError(
            f"@template({name!r})",
            f"a template's arguments are positional; these are not: {', '.join(refused)}",
        )
    # How it is called is shown to people: names and defaults.
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return inspect.Signature(bare)


def resolve(ref: TemplateRef) -> Template:
    """The template that ``ref`` names, registered in this process.

    Raises:
        SpaceError: the module cannot be imported here, or has another template, or another source.
    """
    return _unpickled(ref) if ref.pickled else _imported(ref)


def _imported(ref: TemplateRef) -> Template:
    request = f"template {ref.name!r} of module {ref.module!r}"
    try:
        module = import_module(ref.module)
    except ImportError as error:
        raise SpaceError(
            request,
            f"the worker cannot import the module: {error}",
            "install it where the workers run, or define the template in the script itself",
        ) from error
    found = attribute_of(module, ref.qualname)
    if not isinstance(found, Template) or found.name != ref.name:
        raise SpaceError(request, f"{ref.module}.{ref.qualname} is not this template here")
    if (found.source_hash, found.version) != (ref.source_hash, ref.version):
        raise SpaceError(
            request,
            f"its source here ({found.source_hash[:8]}, version {found.version}) is not "
            f"the driver's ({ref.source_hash[:8]}, version {ref.version})",
            f"the file here is {getattr(module, '__file__', '?')}; give the workers the driver's "
            "code, and start the run again after an edit",
        )
    register(found, replace=True)
    return found


def _unpickled(ref: TemplateRef) -> Template:
    found = kept(ref.pickled)
    if found is None:
        func, canonical = unpickle(ref)
        found = Template(ref.name, func, ref.version, canonical)
        # A worker has no file to read the text from; the driver's reading counts.
        found.source_hash = ref.source_hash
        register(found, replace=True)
    keep(ref.pickled, found)
    return found
