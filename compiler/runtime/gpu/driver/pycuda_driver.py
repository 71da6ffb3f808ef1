"""The driver of NVIDIA's GPUs: pycuda, and through it libcuda.

The import of pycuda needs libcuda, and libcuda's cuInit spoils later forks: both happen when a
device is first asked about, contexts are made when one is first used.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from typing import Any

from whet.compiler.errors import TargetError
from whet.compiler.installed import install_extra
from whet.compiler.runtime.gpu.driver.driver_folders import folder_of_driver, not_looked_in
from whet.compiler.runtime.gpu.driver.libcuda import Libcuda
from whet.compiler.runtime.gpu.driver.properties import DeviceProperties
from whet.compiler.runtime.gpu.driver.pycuda_context import PycudaContext

ASKED = "using a CUDA device"

# Fields of DeviceProperties and the attributes that they are.
_ATTRIBUTES = {
    "multiprocessors": "MULTIPROCESSOR_COUNT",
    "warp_size": "WARP_SIZE",
    "max_threads": "MAX_THREADS_PER_BLOCK",
    "shared_bytes": "MAX_SHARED_MEMORY_PER_BLOCK",
    "shared_bytes_optin": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "shared_bytes_multiprocessor": "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
    "registers_block": "MAX_REGISTERS_PER_BLOCK",
    "registers_multiprocessor": "MAX_REGISTERS_PER_MULTIPROCESSOR",
    "threads_multiprocessor": "MAX_THREADS_PER_MULTIPROCESSOR",
    "blocks_multiprocessor": "MAX_BLOCKS_PER_MULTIPROCESSOR",
    "l2_bytes": "L2_CACHE_SIZE",
    "clock_khz": "CLOCK_RATE",
    "memory_clock_khz": "MEMORY_CLOCK_RATE",
    "memory_bus_bits": "GLOBAL_MEMORY_BUS_WIDTH",
}
_EXTENTS = {"max_block": "MAX_BLOCK_DIM", "max_grid": "MAX_GRID_DIM"}


class PycudaDriver:
    """Devices through pycuda.

    Args:
        compile: makes images of CUDA C, ``compile(source, arch)``; NVRTC by default.

    Attributes:
        loads_cubins: whether its images are NVRTC's.
        shares_memory: always.

    Raises:
        TargetError: pycuda, NVIDIA's driver or a GPU is missing; the text says which.
    """

    shares_memory = True

    def __init__(self, compile: Callable[[str, str], bytes] | None = None) -> None:
        self._drv, self._count = _started()
        self._library = Libcuda()
        self._compile = compile or _compile
        self.loads_cubins = compile is None
        self._process = os.getpid()
        self._contexts: dict[int, PycudaContext] = {}
        self._properties: dict[int, DeviceProperties] = {}
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """``pycuda`` and its version."""
        import pycuda  # type: ignore[import-not-found,unused-ignore]

        return f"pycuda {pycuda.VERSION_TEXT}"

    def device_count(self) -> int:
        """How many GPUs this process may use."""
        self._check_process()
        return self._count

    def properties(self, index: int) -> DeviceProperties:
        """The properties of a GPU.

        Raises:
            TargetError: there is no such GPU, or this is a forked child.
        """
        device = self._device(index)
        if index not in self._properties:
            self._properties[index] = self._asked(device)
        return self._properties[index]

    def _asked(self, device: Any) -> DeviceProperties:
        known = self._drv.device_attribute
        major, minor = device.compute_capability()
        numbers: dict[str, Any] = {
            field: int(device.get_attribute(getattr(known, attribute)))
            for field, attribute in _ATTRIBUTES.items()
        }
        for field, attribute in _EXTENTS.items():
            each = (getattr(known, f"{attribute}_{axis}") for axis in "XYZ")
            numbers[field] = tuple(int(device.get_attribute(one)) for one in each)
        version = self._drv.get_driver_version()
        return DeviceProperties(
            device.name(),
            f"sm_{major}{minor}",
            **numbers,
            memory_bytes=int(device.total_memory()),
            driver_version=f"{version // 1000}.{version % 1000 // 10}",
            pci_bus_id=self._bus_id(device),
        )

    def _bus_id(self, device: Any) -> str:
        try:
            return str(device.pci_bus_id())
        except self._drv.Error:
            return ""  # a virtual GPU may have none

    def context(self, index: int) -> PycudaContext:
        """A GPU's primary context.

        Raises:
            TargetError: there is no such GPU, this is a forked child, or the driver refuses.
        """
        self._check_process()
        found = self._contexts.get(index)
        if found is not None:
            return found
        device, properties = self._device(index), self.properties(index)
        with self._lock:
            if index not in self._contexts:
                try:
                    made = PycudaContext(self, self._drv, device, properties, index)
                except self._drv.Error as error:
                    raise TargetError(
                        f"using cuda({index}), {properties.name}",
                        f"its context cannot be made: {error}",
                        "nvidia-smi tells who uses the GPU, and in which compute mode it is",
                    ) from None
                self._contexts[index] = made
            return self._contexts[index]

    def device_of(self, address: int) -> int:
        """The number of the GPU whose memory an address is in."""
        if self._count == 1:
            return 0
        found = self._library.device_of(address)
        if found is None:  # it may want a context to be current
            with self.context(0):
                found = self._library.device_of(address)
        return found or 0

    def compile(self, source: str, arch: str) -> bytes:
        """A cubin of CUDA C.

        Raises:
            CodegenError: the compiler refuses it.
            TargetError: NVRTC is missing.
        """
        return self._compile(source, arch)

    def _device(self, index: int) -> Any:
        count = self.device_count()
        if index >= count:
            raise TargetError(
                f"using cuda({index})",
                f"this process may use {count} GPU{'s' * (count != 1)}",
                f"cuda(0){f' to cuda({count - 1})' * (count > 1)}; CUDA_VISIBLE_DEVICES may hide "
                "others",
            )
        return self._drv.Device(index)

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise TargetError(
                ASKED,
                f"process {os.getpid()} was forked from {self._process}, which used CUDA already: "
                "CUDA does not work in forked children",
                'start it by multiprocessing.get_context("spawn"), or fork before CUDA is used',
            )


def _compile(source: str, arch: str) -> bytes:
    from whet.compiler.target.kinds import KINDS

    return KINDS["cuda"].tool("compile_cubin")(source, arch).cubin


def _started() -> tuple[Any, int]:
    """pycuda's module of the driver's functions, after cuInit, and how many GPUs there are."""
    drv = imported()
    try:
        drv.init()
        count = int(drv.Device.count())
    except drv.Error as error:
        raise TargetError(
            ASKED,
            f"NVIDIA's driver finds no GPU that works: {error}",
            'nvidia-smi should list one; device("cuda-emulator") runs kernels without',
        ) from None
    if count == 0:
        raise TargetError(
            ASKED,
            "NVIDIA's driver finds no GPU that this process may use",
            "CUDA_VISIBLE_DEVICES may hide it; nvidia-smi should list one",
        )
    return drv, count


def imported() -> Any:
    """pycuda's module of the driver's functions; no function of the driver is called.

    Raises:
        TargetError: it is missing, or cannot be imported; the text says why.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its guess at what is wrong is often another's
            import pycuda.driver as drv  # type: ignore[import-not-found,unused-ignore]
    except ModuleNotFoundError as error:
        raise TargetError(ASKED, f"the Python module {error.name} is missing", _install()) from None
    except ImportError as error:
        raise TargetError(ASKED, *_why_not_imported(str(error))) from None
    return drv


def _install() -> str:
    return f"{install_extra('cuda')}; where pycuda does not build: scripts/build_pycuda"


def _why_not_imported(text: str) -> tuple[str, str]:
    """Why pycuda is installed and cannot be imported, and the way out."""
    if "libcuda.so.1: cannot open" in text:
        folder = folder_of_driver()
        if folder is not None:
            return not_looked_in(folder)
        return (
            "NVIDIA's driver is missing: there is no libcuda.so.1 on this machine",
            'install the driver; device("cuda-emulator") runs kernels without one, and '
            "module.get_source() needs none",
        )
    if "undefined symbol: cu" in text:
        return (
            f"pycuda was built for a newer CUDA than this machine's driver has: {text}",
            "scripts/build_pycuda builds one for drivers from CUDA 12.4 on",
        )
    return f"pycuda cannot be imported: {text}", _install()
