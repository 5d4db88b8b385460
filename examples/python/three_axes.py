#!/usr/bin/env python3
"""Trains a small language model with data, tensor and pipeline parallelism, and saves and loads its state.

    python three_axes.py                             # eight ranks as threads
    torchrun --nproc-per-node 8 three_axes.py        # eight processes, with the same losses
    torchrun --nproc-per-node 4 three_axes.py pp=2,tp=2
"""

import sys

import parashard
import torch

VOCABULARY, LENGTH, ROWS = 64, 16, 8


class Block(torch.nn.Module):
    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, 2))
        attention = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attention.transpose(1, 2).flatten(2))
        x = x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x))))
        return x


class Language(torch.nn.Module):
    def __init__(self, layers: int = 4, width: int = 32) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(VOCABULARY, width)
        self.place = torch.nn.Embedding(LENGTH, width)
        self.blocks = torch.nn.ModuleList(Block(width) for _ in range(layers))
        self.head = torch.nn.Linear(width, VOCABULARY)

    def forward(self, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens) + self.place.weight
        for block in self.blocks:
            x = block(x)
        return torch.nn.functional.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


class Counting(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """Sequences that count up from a random token."""

    def __len__(self) -> int:
        return VOCABULARY

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        tokens = (torch.arange(LENGTH + 1) + index) % VOCABULARY
        return {"tokens": tokens[:-1], "labels": tokens[1:]}


def main(mesh: str = "dp=2,pp=2,tp=2", *, epochs: int = 2) -> list[float]:
    torch.manual_seed(0)
    plan = parashard.Plan(mesh, micro_batches=2, schedule="1f1b", split_method="flops")
    model, optimizer, loader = parashard.parallelize(
        plan,
        Language(),
        lambda model: torch.optim.AdamW(model.parameters(), lr=3e-3),
        dataset=Counting(),
        batch_size=ROWS,
    )
    losses = []
    for _ in range(epochs):
        for batch in loader:
            optimizer.zero_grad()
            loss = model(**batch)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
    state = {"model": model, "optimizer": optimizer, "plan": plan}
    parashard.save("three_axes.pt", state)
    parashard.load("three_axes.pt", {"model": model, "optimizer": optimizer})
    if parashard.env.is_master:
        print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f} under {plan}")
    return losses


if __name__ == "__main__":
    main(*sys.argv[1:2])
