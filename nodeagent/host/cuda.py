"""Whether CUDA works on one card: `python -m nodeagent.host.cuda UUID [--root DIR] [--version V]`.

A program of its own, started by `nodeagent.validate.cuda_trials` for one card, as `nodeagent.host.nvml` for a reading:
it makes a context, takes a megabyte of the card's memory, copies there and back, compares, prints one line of JSON
(`{"cuda": …}` or `{"error": …}`) and ends. UUID is the card's, or that of one of its MIG devices: CUDA shows a process
no more than one MIG device, and of a list what stands before the first that is not there, so each card has a process.

A card on which somebody holds memory is in use, which NVML is asked first: a context takes some 300 MiB for a moment.
What CUDA itself answers of a card that is full, or that a process has for itself, says nothing against it either.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pynvml

from nodeagent.host import library
from nodeagent.host.facts.records import CudaAnswer

MIB: Final = 1024 * 1024
PATTERN: Final = (bytes(range(251)) * (MIB // 251 + 1))[:MIB]
"""A megabyte whose period is that of no memory."""
IN_USE_MIB: Final = 128
"""Memory that nobody's programs hold on an idle card, the driver's own reserve aside, is a few MiB."""
OUT_OF_MEMORY, UNAVAILABLE, NO_DEVICE = 2, 46, 100
ALARM: Final = 300  # seconds
_POINTER, _HANDLE = ctypes.c_uint64, ctypes.c_void_p
_CALLS: Final[dict[str, tuple[Any, ...]]] = {
    "cuInit": (ctypes.c_uint,),
    "cuDeviceGetCount": (ctypes.POINTER(ctypes.c_int),),
    "cuDeviceGet": (ctypes.POINTER(ctypes.c_int), ctypes.c_int),
    "cuCtxCreate_v2": (ctypes.POINTER(_HANDLE), ctypes.c_uint, ctypes.c_int),
    "cuMemAlloc_v2": (ctypes.POINTER(_POINTER), ctypes.c_size_t),
    "cuMemcpyHtoD_v2": (_POINTER, ctypes.c_char_p, ctypes.c_size_t),
    "cuMemcpyDtoH_v2": (ctypes.c_char_p, _POINTER, ctypes.c_size_t),
    "cuMemFree_v2": (_POINTER,),
    "cuCtxDestroy_v2": (_HANDLE,),
    "cuGetErrorName": (ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)),
}
"""The functions of CUDA's driver interface with what they take; each answers a CUresult, an int."""


class Refused(Exception):
    """A call that did not succeed, and what it answered."""

    def __init__(self, call: str, code: int) -> None:
        super().__init__(call, code)
        self.call, self.code = call, code


class Cuda:
    """The library, in which a failed call is an exception."""

    def __init__(self, loaded: ctypes.CDLL) -> None:
        """Raises OSError where the library lacks a function."""
        try:
            self._calls = {name: getattr(loaded, name) for name in _CALLS}
        except AttributeError as error:
            raise OSError(str(error)) from error
        for name, takes in _CALLS.items():
            self._calls[name].argtypes, self._calls[name].restype = takes, ctypes.c_int

    def call(self, name: str, *values: Any) -> None:
        """Call a function; raises Refused."""
        if (code := self._calls[name](*values)) != 0:
            raise Refused(name, code)

    def error(self, code: int) -> str:
        """The name of an error; empty for one that the library does not know."""
        name = ctypes.c_char_p()
        self._calls["cuGetErrorName"](code, ctypes.byref(name))
        return name.value.decode("ascii", "replace") if name.value else ""


def tried(cuda: Cuda) -> CudaAnswer:
    """What comes of trying the first device that CUDA shows this process."""
    try:
        back = _copied(cuda)
    except Refused as refused:
        name = cuda.error(refused.code)
        # Before a context is wanted it is not the card that is full.
        begun = refused.call not in ("cuInit", "cuDeviceGetCount", "cuDeviceGet")
        if begun and refused.code in (OUT_OF_MEMORY, UNAVAILABLE):
            return CudaAnswer(in_use=f"{refused.call} answers {refused.code} ({name})")
        return CudaAnswer(call=refused.call, code=refused.code, name=name)
    return CudaAnswer(differs=back != PATTERN)


def _copied(cuda: Cuda) -> bytes:
    """What comes back of the pattern from the card; raises Refused. The process's end frees what is left."""
    count, device, context, memory = ctypes.c_int(), ctypes.c_int(), _HANDLE(), _POINTER()
    cuda.call("cuInit", 0)
    cuda.call("cuDeviceGetCount", ctypes.byref(count))
    if count.value < 1:
        raise Refused("cuDeviceGetCount", NO_DEVICE)
    cuda.call("cuDeviceGet", ctypes.byref(device), 0)
    cuda.call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
    back = ctypes.create_string_buffer(MIB)
    cuda.call("cuMemAlloc_v2", ctypes.byref(memory), MIB)
    cuda.call("cuMemcpyHtoD_v2", memory, PATTERN, MIB)
    cuda.call("cuMemcpyDtoH_v2", back, memory, MIB)
    cuda.call("cuMemFree_v2", memory)
    cuda.call("cuCtxDestroy_v2", context)
    return back.raw


def in_use(uuid: str) -> str:
    """How much memory others hold on a card or MIG device; empty where that is little, or not told."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ""
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        used: int = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).used
    except pynvml.NVMLError:
        return ""
    finally:
        pynvml.nvmlShutdown()
    return f"{used // MIB} MiB of its memory are taken" if used >= IN_USE_MIB * MIB else ""


def main(argv: list[str] | None = None) -> int:
    """Try one card."""
    signal.alarm(ALARM)
    parser = argparse.ArgumentParser(description="Try CUDA on one card, and print what came of it, as JSON.")
    parser.add_argument("uuid", help="of the card, or of one of its MIG devices")
    parser.add_argument("--root", type=Path, action="append", default=[], help="folder of the host's files")
    parser.add_argument("--version", default="", help="version of the loaded kernel module")
    args = parser.parse_args(argv)
    # Nothing is compiled here, so no cache of compiled code is wanted below $HOME.
    os.environ.update(CUDA_VISIBLE_DEVICES=args.uuid, CUDA_CACHE_DISABLE="1", CUDA_MODULE_LOADING="LAZY")
    try:
        library.load(args.root, args.version)
        taken = in_use(args.uuid)
        cuda = Cuda(library.load(args.root, args.version, library.CUDA))
    except OSError as error:
        answer: dict[str, Any] = {"error": f"no library: {error}"}
    else:
        answer = {"cuda": asdict(CudaAnswer(in_use=taken) if taken else tried(cuda))}
    print(json.dumps(answer))  # noqa: T201 - this is its output
    return 0


if __name__ == "__main__":
    sys.exit(main())
