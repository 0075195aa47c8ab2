"""Digests of a checkpoint's tensors as torch itself sees them, kept as they are or cast to bfloat16.

    reference.py PACKAGES FILE preserve|bf16

Prints one JSON object: tensor name -> {"dtype", "shape", "sha256"}. A NaN counts as the class of NaNs: torch's
own casts differ among themselves in its bits, so here it is always 0x7FC0.
"""

from __future__ import annotations

import hashlib
import json
import sys

packages, file, representation = sys.argv[1:]
sys.path.insert(0, packages)

import torch  # noqa: E402
from safetensors import safe_open  # noqa: E402


def represented(tensor: torch.Tensor) -> torch.Tensor:
    if representation == "preserve" or tensor.dtype not in (torch.float32, torch.float16):
        return tensor
    cast = tensor.to(torch.bfloat16)
    bits = cast.view(torch.int16).clone()
    bits[torch.isnan(cast)] = 0x7FC0
    return bits.view(torch.bfloat16)


def raw(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


tensors: dict[str, object] = {}
with safe_open(file, framework="pt") as checkpoint:
    for name in checkpoint.keys():
        tensor = represented(checkpoint.get_tensor(name))
        tensors[name] = {
            "dtype": str(tensor.dtype),
            "shape": list(tensor.shape),
            "sha256": hashlib.sha256(raw(tensor)).hexdigest(),
        }
json.dump(tensors, sys.stdout)
