"""The functions of NVIDIA's driver library that pycuda asks for and the stand-in does not have."""

from __future__ import annotations

import re

NOT_SUPPORTED = 801

# What pycuda needs to find in the library when it is imported, built for CUDA 12 or 13
_NAMES = """
cuArray3DCreate_v2 cuArray3DGetDescriptor_v2 cuArrayCreate_v2 cuArrayDestroy cuArrayGetDescriptor_v2
cuCtxDisablePeerAccess cuCtxEnablePeerAccess cuCtxGetCacheConfig cuCtxGetLimit
cuCtxGetSharedMemConfig cuCtxSetCacheConfig cuCtxSetLimit cuCtxSetSharedMemConfig
cuIpcCloseMemHandle cuIpcGetEventHandle cuIpcGetMemHandle cuIpcOpenEventHandle cuIpcOpenMemHandle_v2
cuLaunch cuLaunchGrid cuLaunchGridAsync cuLinkAddData_v2 cuLinkAddFile_v2 cuLinkComplete
cuLinkCreate_v2 cuLinkDestroy cuMemAllocManaged cuMemAllocPitch_v2 cuMemHostGetFlags
cuMemHostRegister_v2 cuMemHostUnregister cuMemcpy2DAsync_v2 cuMemcpy2DUnaligned_v2 cuMemcpy2D_v2
cuMemcpy3DAsync_v2 cuMemcpy3DPeer cuMemcpy3DPeerAsync cuMemcpy3D_v2 cuMemcpyAtoA_v2 cuMemcpyAtoD_v2
cuMemcpyAtoH_v2 cuMemcpyDtoA_v2 cuMemcpyHtoA_v2 cuMemsetD2D16Async cuMemsetD2D16_v2
cuMemsetD2D32Async cuMemsetD2D32_v2 cuMemsetD2D8Async cuMemsetD2D8_v2 cuModuleGetGlobal_v2
cuModuleGetSurfRef cuModuleGetTexRef cuModuleLoad cuParamSetSize cuParamSetTexRef cuParamSetf
cuParamSeti cuParamSetv cuProfilerInitialize cuProfilerStart cuProfilerStop cuStreamAttachMemAsync
cuSurfRefGetArray cuSurfRefSetArray cuTexRefCreate cuTexRefDestroy cuTexRefGetAddressMode
cuTexRefGetAddress_v2 cuTexRefGetArray cuTexRefGetFilterMode cuTexRefGetFlags cuTexRefGetFormat
cuTexRefSetAddress2D_v3 cuTexRefSetAddressMode cuTexRefSetAddress_v2 cuTexRefSetArray
cuTexRefSetFilterMode cuTexRefSetFlags cuTexRefSetFormat cuPointerGetAttribute
cuCtxGetStreamPriorityRange cuStreamCreateWithPriority cuStreamBeginCapture_v2 cuStreamEndCapture
"""
NAMES = tuple(_NAMES.split())


def unsupported(text: str) -> str:
    """C functions that say "not supported", for the names that a text does not define."""
    made = set(re.findall(r"\bEXPORT Result (\w+)\(", text))
    lines = ["/* What pycuda needs to find, and nothing calls. */"]
    lines += [
        f"int {name}(void) {{ return {NOT_SUPPORTED}; }}" for name in NAMES if name not in made
    ]
    return "\n".join(lines) + "\n"
