#!/usr/bin/env python3
"""The peer of scripts/gpu-checks on a GPU: a step of GPT-2 under torch.compile, bf16 autocast, flash attention, fused AdamW.

    scripts/gpu_peer.py WIDTH HEADS LAYERS BATCH     prints one line of JSON: seconds of a step, memory, flops, the matmul rate of this GPU
"""
import json
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional

VOCABULARY, TIME = 50304, 1024


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
    def __init__(self, width, heads, layers):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, width), nn.Embedding(TIME, width)
        self.blocks, self.norm = nn.ModuleList(Block(width, heads) for _ in range(layers)), nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, input_ids, labels):
        x = self.tokens(input_ids) + self.positions(torch.arange(input_ids.shape[1], device=input_ids.device))
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), labels.flatten())


def export(path, width, heads, layers, batch):
    """The same model, without weights."""
    with torch.device("meta"):
        model = GPT(width, heads, layers).train()
        inputs = {name: torch.zeros(batch, TIME, dtype=torch.int64) for name in ("input_ids", "labels")}
    torch.export.save(torch.export.export(model, (), inputs), path)


def seconds_of(function, count):
    for _ in range(5):
        function()
    times = []
    for _ in range(count):
        torch.cuda.synchronize()
        start = time.perf_counter()
        function()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main(width, heads, layers, batch):
    torch.manual_seed(0)
    model = GPT(width, heads, layers).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.01, fused=True)
    compiled = torch.compile(model)
    input_ids, labels = (torch.randint(0, VOCABULARY, (batch, TIME), device="cuda") for _ in range(2))

    def step():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = compiled(input_ids, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    seconds = seconds_of(step, 20)
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    rate = 2 * 8192**3 / seconds_of(lambda: a @ b, 20)
    weights = 12 * layers * width**2 + width * VOCABULARY
    flops = 6 * weights * batch * TIME + 6 * layers * batch * TIME**2 * width  # causal: half of attention's products
    print(json.dumps({"seconds": seconds, "flops": flops, "matmul_flops": rate, "gb": torch.cuda.max_memory_allocated() / 1e9,
                      "gpu": torch.cuda.get_device_name(), "torch": torch.__version__}))  # fmt: skip


if __name__ == "__main__":
    main(*map(int, sys.argv[1:5]))
