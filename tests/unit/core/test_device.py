from __future__ import annotations

from typing import Any

import pytest
import torch

import calibrant
from calibrant.core.device import has_driver, read_device
from calibrant.core.errors import InvalidOption


def test_auto_is_a_gpu_if_torch_finds_one() -> None:
    assert read_device("auto") == ("cuda" if torch.cuda.is_available() else "cpu")
    assert has_driver() or not torch.cuda.is_available()


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("mps", "device must be auto, cpu, cuda, or cuda: and a number"),
        ("cuda:x", "device must be auto, cpu, cuda, or cuda: and a number"),
        (0, "device must be auto, cpu, cuda, or cuda: and a number"),
        ("cuda:999", "device is cuda:999, but torch finds"),
    ],
)
def test_a_device_that_does_not_exist_is_rejected(device: Any, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        calibrant.fit("platt", [0.2, 0.8], [0, 1], device=device)
