"""The device of a fit: the processor, with NumPy, or a GPU, with PyTorch."""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec

from calibrant.core.errors import InvalidOption, requires


def read_device(device: str) -> str:
    """Return ``cpu``, ``cuda`` or ``cuda:1``; for ``auto``, ``cuda`` if PyTorch finds a GPU, or else ``cpu``.

    Raises ``InvalidOption`` for a device that does not exist, and ``MissingExtra`` for a GPU without PyTorch. PyTorch
    is imported for a GPU alone, since its import takes seconds; call this in the process that fits, because a process
    that has started CUDA cannot fork for it.
    """
    if device == "cpu":
        return device
    if device == "auto":
        return "cuda" if has_driver() and find_spec("torch") is not None and _gpus() else "cpu"
    if not isinstance(device, str) or re.fullmatch(r"cuda(:[0-9]{1,3})?", device) is None:
        raise InvalidOption.at("/device", "must be auto, cpu, cuda, or cuda: and a number")
    with requires("torch", f"the device {device}"):
        gpus = _gpus()
    if int(device.partition(":")[2] or 0) >= gpus:
        raise InvalidOption.at("/device", f"is {device}, but torch finds {gpus} CUDA devices")
    return device


def has_driver() -> bool:
    """Return whether NVIDIA's driver is installed, without which no process has a GPU. Does not start CUDA."""
    import ctypes

    try:
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return False
    return True


def _gpus() -> int:
    import torch

    return torch.cuda.device_count()
