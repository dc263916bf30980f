"""Drives an NVIDIA GPU through its driver alone, by ctypes: adds two vectors with a small PTX kernel and checks the sum.

Runs as a cell or as a program (``python tests/support/gpu_probe.py``); needs nothing but ``libcuda.so.1``. Writes one line
of JSON: ``ok``, the devices with their memory, and where it failed the call and its code.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import Any

COUNT = 4096
PTX = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .b32 %r<6>;
    .reg .f32 %f<4>;
    .reg .b64 %rd<11>;
    ld.param.u64 %rd1, [a];
    ld.param.u64 %rd2, [b];
    ld.param.u64 %rd3, [c];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra DONE;
    cvta.to.global.u64 %rd4, %rd1;
    cvta.to.global.u64 %rd5, %rd2;
    cvta.to.global.u64 %rd6, %rd3;
    mul.wide.u32 %rd7, %r5, 4;
    add.s64 %rd8, %rd4, %rd7;
    add.s64 %rd9, %rd5, %rd7;
    add.s64 %rd10, %rd6, %rd7;
    ld.global.f32 %f1, [%rd8];
    ld.global.f32 %f2, [%rd9];
    add.f32 %f3, %f1, %f2;
    st.global.f32 [%rd10], %f3;
DONE:
    ret;
}
\0"""


class CudaFailed(Exception):
    """A call of the driver that did not succeed."""


class Driver:
    """``libcuda.so.1``, with every failure raised."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            raise CudaFailed(f"{name} failed with {code}")


def probe() -> dict[str, Any]:
    """Use the first GPU, and tell about all."""
    told: dict[str, Any] = {
        "ok": False,
        "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "devices": _devices(),
        "gpus": [],
    }
    try:
        driver = Driver()
        driver.call("cuInit", 0)
        count = ctypes.c_int()
        driver.call("cuDeviceGetCount", ctypes.byref(count))
        told["gpus"] = [_name(driver, number) for number in range(count.value)]
        _add(driver, told)
    except (OSError, CudaFailed) as error:
        told["error"] = str(error)
    else:
        told["ok"] = True
    return told


def _name(driver: Driver, number: int) -> str:
    device, name = ctypes.c_int(), ctypes.create_string_buffer(128)
    driver.call("cuDeviceGet", ctypes.byref(device), number)
    driver.call("cuDeviceGetName", name, len(name), device)
    return name.value.decode()


def _devices() -> list[str] | None:
    """What is in ``/dev`` of NVIDIA's; None where it may not be listed."""
    try:
        return sorted(name for name in os.listdir("/dev") if name.startswith("nvidia"))
    except PermissionError:
        return None


def _add(driver: Driver, told: dict[str, Any]) -> None:
    device, context = ctypes.c_int(), ctypes.c_void_p()
    driver.call("cuDeviceGet", ctypes.byref(device), 0)
    driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    driver.call("cuCtxSetCurrent", context)
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    told["memory_mb"], told["free_mb"] = total.value >> 20, free.value >> 20
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    driver.call("cuModuleLoadData", ctypes.byref(module), PTX)
    driver.call("cuModuleGetFunction", ctypes.byref(function), module, b"add")
    row = ctypes.c_float * COUNT
    first, second, result = row(*range(COUNT)), row(*([0.5] * COUNT)), row()
    size = ctypes.sizeof(row)
    buffers = [ctypes.c_uint64() for _ in range(3)]
    for buffer in buffers:
        driver.call("cuMemAlloc_v2", ctypes.byref(buffer), ctypes.c_size_t(size))
    for buffer, values in zip(buffers, (first, second), strict=False):
        driver.call("cuMemcpyHtoD_v2", buffer, values, ctypes.c_size_t(size))
    given = [*buffers, ctypes.c_uint32(COUNT)]
    parameters = (ctypes.c_void_p * len(given))(*(ctypes.addressof(one) for one in given))
    shape = [ctypes.c_uint(one) for one in (COUNT // 256, 1, 1, 256, 1, 1, 0)]
    driver.call("cuLaunchKernel", function, *shape, None, parameters, None)
    driver.call("cuCtxSynchronize")
    driver.call("cuMemcpyDtoH_v2", result, buffers[2], ctypes.c_size_t(size))
    if list(result) != [number + 0.5 for number in range(COUNT)]:
        raise CudaFailed("the sum came back wrong")
    # Page-locked memory is shared with the device, and so the first to fail where that is refused.
    locked = ctypes.c_void_p()
    driver.call("cuMemAllocHost_v2", ctypes.byref(locked), ctypes.c_size_t(1 << 20))
    driver.call("cuMemFreeHost", locked)
    driver.call("cuDevicePrimaryCtxRelease_v2", device)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(probe()) + "\n")
