"""The code of a worker: functions, classes and constants of its modules, put back after a call.

A candidate that says ``te.compute = mine`` would change what all later ones are built with. What is
compared is identity: the addresses of 30,000 values as one sequence of bytes, which takes a
fraction of the time of looking each of them up by its name. Data that modules keep for themselves
(caches, counters) is left alone, but for Whet's tables and the module of a user's template.
"""

from __future__ import annotations

import builtins
import ctypes
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence, Set
from functools import partial
from operator import attrgetter, is_
from typing import Any

OWN = "whet."
_CODE = (types.FunctionType, types.BuiltinFunctionType, type, types.ModuleType)
_TABLES = ("_registered", "_named")  # what functions and tags are registered in
_INTERNED = ("OP_NAMES",)  # what only keeps one object a name, and grows
_BUILT_IN = frozenset(vars(builtins)) - {"__doc__", "__name__", "__spec__", "__loader__", "_"}
_MISSING: Any = object()
_MATERIALISED = {"__slotnames__", "__annotations__"}  # what Python adds to a class by itself
_PARTS = ("__code__", "__defaults__", "__kwdefaults__")
_READERS = tuple(map(attrgetter, _PARTS))

# Looked up now: a candidate may replace the built-in functions.
_all, _list, _map, _len, _dict, _type, _tuple = all, list, map, len, dict, type, tuple
_id, _next, _reversed = id, next, reversed
_string_at, _HEAD, _POINTER = ctypes.string_at, tuple.__basicsize__, ctypes.sizeof(ctypes.c_void_p)


class Names:
    """Names that are bound to values: they are bound to the same values again.

    Args:
        what: its name in reports.
        space: the names, by now.
        chosen: the names that count; None: all.
        bind: binds a name again.
        unbind: removes one.
        intruders: names that are removed where they come later: one of a module shadows a built-in
            one; None: all.
        usual: a change is not reported.

    Attributes:
        addresses: of the values of all names, in the order of the space. Those that do not count
            are not kept alive: what a candidate bound there ends with it.
        varies: values that do not count have changed.
    """

    def __init__(
        self,
        what: str,
        space: Mapping[str, Any],
        chosen: Iterable[str] | None,
        bind: Callable[[str, Any], None],
        unbind: Callable[[str], None],
        intruders: Set[str] | None = None,
        usual: bool = False,
    ) -> None:
        self.what, self.usual = what, usual
        self.space, self._bind, self._unbind = space, bind, unbind
        self._intruders, self.varies = intruders, False
        keys = _list(space if chosen is None else chosen)
        self._keys = [key for key in keys if key not in _MATERIALISED]
        self._values = [space[key] for key in self._keys]
        self._known = {*space, *_MATERIALISED}
        self.addresses, self._last = _addresses(space.values()), _last_of(space)

    def same(self) -> bool:
        """True if nothing that counts has changed."""
        space = self.space
        addresses = _addresses(space.values())
        # A name that is removed and bound again under another one comes last.
        if addresses == self.addresses and _last_of(space) == self._last:
            return True
        if _len(addresses) != _len(self.addresses):
            return False
        if not _all(_map(is_, _map(space.get, self._keys), self._values)):
            return False
        self.addresses, self._last, self.varies = addresses, _last_of(space), True
        return True

    def put_back(self) -> Iterator[str]:
        """Bind what was bound; what had changed."""
        space = self.space
        for key, value in zip(self._keys, self._values, strict=True):
            if space.get(key, _MISSING) is not value:
                self._bind(key, value)
                yield f"{self.what}.{key}"
        new = set(space) - self._known
        for key in new if self._intruders is None else new & self._intruders:
            self._unbind(key)
            yield f"{self.what}.{key}"
        self.addresses, self._last = _addresses(space.values()), _last_of(space)
        self.varies = True


class Steady:
    """Names whose values do not vary, compared all at once.

    Args:
        watched: the names.
    """

    def __init__(self, watched: Sequence[Names]) -> None:
        self._spaces = [names.space for names in watched]
        self._lasts = _list(_map(_last_of, self._spaces))
        self._views = [names.space.values() for names in watched]
        self._sizes = _list(_map(_len, self._views))
        self._addresses = b"".join([names.addresses for names in watched])

    def same(self) -> bool:
        """True if nothing has changed; False does not say that something that counts has."""
        if _list(_map(_len, self._views)) != self._sizes:
            return False
        if _list(_map(_last_of, self._spaces)) != self._lasts:
            return False
        values: list[Any] = []
        for view in self._views:
            values += view
        return _addresses(values) == self._addresses


def _last_of(space: Any) -> str:
    """The name of a dict or a class's view that was bound last; "" where there is none."""
    return _next(_reversed(space), "")


def _addresses(values: Iterable[Any]) -> bytes:
    """The addresses of values, which CPython keeps in a tuple behind its head."""
    kept = _tuple(values)
    return _string_at(_id(kept) + _HEAD, _len(kept) * _POINTER)


class Container:
    """A list, dict or set that holds the same things again.

    Args:
        what: its name in reports.
        value: the container.
        usual: a change is not reported.
    """

    def __init__(self, what: str, value: Any, usual: bool = False) -> None:
        self.what, self.usual, self._value = what, usual, value
        self._copy = value.copy()

    def same(self) -> bool:
        """True if nothing has changed."""
        return _same(self._value, self._copy)

    def put_back(self) -> Iterator[str]:
        """Fill it as it was; what had changed."""
        value, copy = self._value, self._copy
        if isinstance(value, list):
            value[:] = copy
        else:
            value.clear()
            value.update(copy)
        yield self.what


class Insides:
    """The code and the defaults of functions."""

    def __init__(self) -> None:
        self._functions: list[types.FunctionType] = []
        self._parts: list[list[Any]] = [[] for _ in _PARTS]

    def add(self, function: types.FunctionType) -> None:
        """Watch one more."""
        self._functions.append(function)
        for values, part in zip(self._parts, _PARTS, strict=True):
            values.append(getattr(function, part))

    def put_back(self) -> Iterator[str]:
        """Give each function its own code again; what had changed."""
        for part, read, values in zip(_PARTS, _READERS, self._parts, strict=True):
            if _addresses(_map(read, self._functions)) == _addresses(values):
                continue
            for function, value in zip(self._functions, values, strict=True):
                if getattr(function, part) is not value:
                    setattr(function, part, value)
                    yield f"{function.__module__}.{function.__qualname__}"


class CodeState:
    """The names, containers and functions of this process's modules."""

    def __init__(self) -> None:
        self._modules: dict[str, Any] = {}
        self._seen: set[int] = set()
        self._kept: list[Any] = []  # so that no id is given to another one
        self._names: list[Names] = []
        self._containers: list[Container] = []
        self._steady = Steady(())
        self._varying: list[Names] = []
        self._insides = Insides()
        self.take()

    def take(self, namespaces: Iterable[MutableMapping[str, Any]] = ()) -> None:
        """Watch the modules that were imported since, too.

        Args:
            namespaces: names of users' modules, of which all are watched.
        """
        self._modules = _dict(sys.modules)
        for space in namespaces:
            self._take_whole(space)
        for name, module in self._modules.items():
            if isinstance(module, types.ModuleType) and self._is_new(module):
                self._take_module(name, module)
        self._sort()

    def knows(self, namespace: Mapping[str, Any]) -> bool:
        """True if all names of a module are watched."""
        return id(namespace) in self._seen

    def put_back(self) -> list[str]:
        """Undo what was changed; its names."""
        changes = []
        for name, module in self._modules.items():
            if sys.modules.get(name) is not module:
                sys.modules[name] = module
                changes.append(f"sys.modules[{name!r}]")
        # None, where a module is looked for, is one that nobody can import
        for name in [name for name, module in sys.modules.items() if module is None]:
            if name not in self._modules:
                del sys.modules[name]
                changes.append(f"sys.modules[{name!r}]")
        steady = self._steady.same()
        names = self._varying if steady else self._names
        watched: list[Names | Container] = [*names, *self._containers]
        for different in [one for one in watched if not one.same()]:
            changed = _list(different.put_back())
            if not different.usual:
                changes += changed
        if not steady:
            self._sort()
        changes += self._insides.put_back()
        return changes

    def _sort(self) -> None:
        """Put names aside of which some vary: the others are compared as one."""
        self._varying = [names for names in self._names if names.varies]
        self._steady = Steady([names for names in self._names if not names.varies])

    def _is_new(self, thing: Any) -> bool:
        if id(thing) in self._seen:
            return False
        self._seen.add(id(thing))
        self._kept.append(thing)
        return True

    def _take_whole(self, space: MutableMapping[str, Any]) -> None:
        what = str(space.get("__name__", "the template's module"))
        if not self._is_new(space) or what.startswith(OWN):  # Whet's remember what they computed
            return
        names = Names(what, space, None, space.__setitem__, space.__delitem__, usual=True)
        self._names.append(names)
        for key, value in space.items():
            self._take_container(f"{what}.{key}", value, usual=True)

    def _take_module(self, name: str, module: types.ModuleType) -> None:
        space = module.__dict__
        whole = module is builtins
        chosen = None if whole else [key for key, value in space.items() if _counts(key, value)]
        hidden = None if whole else _BUILT_IN
        self._names.append(Names(name, space, chosen, space.__setitem__, space.__delitem__, hidden))
        if not name.startswith(OWN):
            return
        self._take_functions(space)
        for key, value in space.items():
            if (key.isupper() and key not in _INTERNED) or key in _TABLES:
                self._take_container(f"{name}.{key}", value)
            if isinstance(value, type) and value.__module__ == name and self._is_new(value):
                self._take_class(value)

    def _take_class(self, cls: type) -> None:
        what = f"{cls.__module__}.{cls.__qualname__}"
        names = Names(what, cls.__dict__, None, partial(setattr, cls), partial(delattr, cls))
        self._names.append(names)
        self._take_functions(cls.__dict__)

    def _take_functions(self, space: Mapping[str, Any]) -> None:
        for value in space.values():
            if isinstance(value, types.FunctionType) and self._is_new(value):
                self._insides.add(value)

    def _take_container(self, what: str, value: Any, usual: bool = False) -> None:
        if _type(value) in (list, dict, set) and self._is_new(value):
            self._containers.append(Container(what, value, usual))


def _counts(key: str, value: Any) -> bool:
    """True for a name of code or of a constant, and not for a module's own state."""
    public = not key.startswith("_")
    return isinstance(value, _CODE) or key.isupper() or (public and isinstance(value, float))


def _same(value: Any, copy: Any) -> bool:
    """True if two containers hold the very same objects in the same order."""
    if _len(value) != _len(copy):
        return False
    if isinstance(value, set):
        return {id(one) for one in value} == {id(one) for one in copy}
    if isinstance(value, dict) and not _all(_map(is_, value.values(), copy.values())):
        return False
    return _all(_map(is_, value, copy))
