"""Trains in the job of this process, and prints what the process saw. test_python_jobs.py starts this script.

job_script.py MESH [raise | kill | exit | wrong]: what rank 1 does in its third step. With "wrong", processes make calls that do not fit.
"""
import hashlib
import os
import signal
import sys

import torch

sys.path.insert(0, os.environ["PARASHARD_PACKAGE"])
import parashard


def make_model():
    blocks = [torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.GELU(), torch.nn.Dropout(0.1)) for _ in range(2)]
    return torch.nn.Sequential(torch.nn.Linear(12, 32), *blocks, torch.nn.Linear(32, 10))


def draw_batch(step):
    generator = torch.Generator().manual_seed(step)
    return {"input": torch.randn(8, 12, generator=generator), "labels": torch.randint(0, 10, (8,), generator=generator)}


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        return {name: value[index % 8] for name, value in draw_batch(index // 8).items()}


def hash_values(values):
    return hashlib.sha256(b"".join(value.detach().clone().numpy().tobytes() for value in values)).hexdigest()


def train(mesh, misbehave=lambda step, model, optimizer: None):
    """Trains four steps. Returns (losses, hash of logits and weights). The initial weights are those of rank 0."""
    env = parashard.launch()
    torch.manual_seed(env.rank)
    plan = parashard.Plan(mesh, micro_batches=2, **({"zero": 1} if "dp" in mesh else {}))
    model, optimizer, loader = parashard.parallelize(
        plan, make_model(), lambda model: torch.optim.AdamW(model.parameters(), lr=1e-2),
        criterion=torch.nn.functional.cross_entropy, dataset=Rows(), batch_size=8, threads=1,
    )  # fmt: skip
    losses = []
    for step, batch in enumerate(loader):
        misbehave(step, model, optimizer)
        optimizer.zero_grad()
        for _ in range(2):
            loss, *_ = model(**batch)
            (loss / 2).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        losses.append(loss.item())
    parashard.save("state.pt", {"model": model, "optimizer": optimizer, "loader": loader})
    result = hash_values(model.state_dict().values())
    parashard.load("state.pt", {"model": model, "optimizer": optimizer})
    _, logits = model.eval()(**draw_batch(0))
    result += parashard.jobs.share(lambda: f" shared by rank {env.rank}")
    return losses, result, hash_values([logits, *model.state_dict().values()])


def fail(kind):
    """Returns a function that ends rank 1 in the third step."""

    def misbehave(step, model, optimizer):
        if step != 2 or parashard.env.rank != 1:
            return
        if kind == "raise":
            raise ValueError("row 7 of the dataset is bad")
        if kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        sys.exit(5)

    return misbehave


def call_wrongly(step, model, optimizer):
    """Makes calls that differ between the processes. Each must fail in both, and the training continues."""
    if step != 2:
        return
    first = parashard.env.rank == 0
    calls = {
        "reads": lambda: model.state_dict()["0.weight"].sum() if first else model(**draw_batch(2)),
        "batch": lambda: model(**draw_batch(2 if first else 3)),
        "rows": lambda: model(**{name: value[: 8 if first else 6] for name, value in draw_batch(2).items()}),
        "waits": lambda: parashard.jobs.barrier("this" if first else "that"),
    }
    for name, call in calls.items():
        try:
            call()
            print(f"{name} {parashard.env.rank}: no error")
        except parashard.InputError as error:
            print(f"{name} {parashard.env.rank}: {error}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    how = sys.argv[2] if len(sys.argv) > 2 else ""
    misbehave = {"": [], "wrong": [call_wrongly]}.get(how, [fail(how)])
    result = train(sys.argv[1], *misbehave)
    if parashard.env.is_master:
        print("result", result, flush=True)
