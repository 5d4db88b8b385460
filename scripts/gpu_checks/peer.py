#!/usr/bin/env python3
"""Measures PyTorch on the GPU: a step with torch.compile, bf16 autocast, flash attention and fused AdamW, or the GPU's peak rates.

    gpu_checks/peer.py '{"kind": "gpt", "sizes": {...}, "batch": 16, "vocabulary": 50304, "time": 1024}'

Prints one line of JSON when the model is compiled. For each line on stdin, measures a few steps and prints their median time as JSON. With
{"kind": "rates"}, prints the rates of matmuls and of copies, and ends. The GPT is the model that `export` exports for ps-compile. The Llama is
Hugging Face's.
"""
import json
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norm1, self.norm2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, d = x.shape
        y = self.norm1(x)
        q, k, v = (layer(y).view(b, t, self.heads, d // self.heads).transpose(1, 2) for layer in (self.query, self.key, self.value))
        x = x + self.out(functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, vocabulary, time, width, heads, layers):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(time, width)
        self.blocks, self.norm = nn.ModuleList(Block(width, heads) for _ in range(layers)), nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, input_ids, labels):
        x = self.tokens(input_ids) + self.positions(torch.arange(input_ids.shape[1], device=input_ids.device))
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), labels.flatten())


def llama_config(vocabulary, time, width, hidden, heads, groups, layers):
    """Returns the contents of Hugging Face's config.json."""
    return {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": vocabulary, "max_position_embeddings": time, "hidden_size": width,
            "intermediate_size": hidden, "num_attention_heads": heads, "num_key_value_heads": groups, "num_hidden_layers": layers,
            "tie_word_embeddings": False, "bos_token_id": 0, "eos_token_id": 0}  # fmt: skip


def build(spec):
    if spec["kind"] == "gpt":
        return GPT(spec["vocabulary"], spec["time"], **spec["sizes"])
    from transformers import LlamaConfig, LlamaForCausalLM

    about = llama_config(spec["vocabulary"], spec["time"], **spec["sizes"])
    return LlamaForCausalLM(LlamaConfig(**about, attn_implementation="sdpa", use_cache=False))


def export(path, spec):
    """Exports the same GPT without weights, for ps-compile."""
    with torch.device("meta"):
        model = build(spec).train()
        inputs = {name: torch.zeros(spec["batch"], spec["time"], dtype=torch.int64) for name in ("input_ids", "labels")}
    torch.export.save(torch.export.export(model, (), inputs), path)


def wait():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def seconds_of(function, count):
    for _ in range(5):
        function()
    times = []
    for _ in range(count):
        wait()
        start = time.perf_counter()
        function()
        wait()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def make_step(spec):
    torch.manual_seed(0)
    with torch.device(DEVICE):
        module = build(spec).train()
    optimizer = torch.optim.AdamW(module.parameters(), lr=3e-4, weight_decay=0.01, fused=True)
    compiled = torch.compile(module) if DEVICE == "cuda" else module
    input_ids, labels = (torch.randint(0, spec["vocabulary"], (spec["batch"], spec["time"]), device=DEVICE) for _ in range(2))

    def step():
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            outputs = compiled(input_ids=input_ids, labels=labels)
        (outputs if torch.is_tensor(outputs) else outputs.loss).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def measure(step):
    """Measures some steps, and frees cached GPU memory for the compiled program that runs next. Returns the median seconds of a step and the peak of
    allocated bytes."""
    seconds = seconds_of(step, 20 if DEVICE == "cuda" else 2)
    return {"seconds": seconds, "bytes": give_back()}


def give_back():
    """Frees cached GPU memory. Returns the peak of allocated bytes."""
    if DEVICE == "cpu":
        return 0
    wait()
    torch.cuda.empty_cache()
    return torch.cuda.max_memory_allocated()


def find_rates():
    """Returns the rates of bf16 matmuls and of copies (bytes read plus written). Random numbers give the matmul a realistic power draw."""
    size, numbers = (8192, 1 << 28) if DEVICE == "cuda" else (128, 1 << 12)
    a, b = (torch.randn(size, size, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    matmuls = 2 * size**3 / seconds_of(lambda: a @ b, 20)
    source, target = (torch.randn(numbers, device=DEVICE) for _ in range(2))
    copies = 2 * 4 * numbers / seconds_of(lambda: target.copy_(source), 20)
    return {"matmul_flops": matmuls, "copy_bytes": copies, "torch": torch.__version__}


def say(**what):
    print(json.dumps(what), flush=True)


def main(spec):
    if spec["kind"] == "rates":
        say(**find_rates())
        return
    started = time.monotonic()
    step = make_step(spec)
    step()
    give_back()
    say(ready=time.monotonic() - started)
    for _ in sys.stdin:
        say(**measure(step))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
