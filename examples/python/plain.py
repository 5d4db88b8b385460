#!/usr/bin/env python3
"""Trains a classifier with the loss in PyTorch. Only the call of parallelize is not PyTorch.

    python plain.py                                  # the ranks are threads
    torchrun --nproc-per-node 4 plain.py             # the ranks are processes, with the same losses
"""

import parashard
import torch


def draw_batch(step: int, rows: int = 64) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns points of three spirals, and the spiral of each point."""
    generator = torch.Generator().manual_seed(step)
    labels = torch.randint(0, 3, (rows,), generator=generator)
    radius = torch.rand(rows, generator=generator)
    angle = 4 * radius + labels * 2.1 + 0.1 * torch.randn(rows, generator=generator)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], 1), labels


def main(plan: str = "dp=2,tp=2", steps: int = 150) -> list[float]:
    torch.manual_seed(0)
    model: torch.nn.Module = torch.nn.Sequential(
        torch.nn.Linear(2, 64), torch.nn.GELU(), torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 3)
    )
    model, optimizer, scheduler = parashard.parallelize(
        plan,
        model,
        lambda model: torch.optim.AdamW(model.parameters(), lr=1e-2),
        lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-2, total_steps=steps),
        example=draw_batch(0)[0],
    )
    losses = []
    for step in range(steps):
        points, labels = draw_batch(step)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(points), labels)
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    model.eval()
    points, labels = draw_batch(steps)
    right = (model(points).argmax(1) == labels).float().mean().item()
    if parashard.env.is_master:
        print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}, {right:.0%} of new points are right")
    return losses


if __name__ == "__main__":
    main()
