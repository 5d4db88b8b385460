"""The examples of the Python package and the sample of veScale run, and the models learn. (test_python_jobs.py starts processes.)"""

import importlib.util
import sys

import pytest
import torch
from conftest import ROOT, package_folder

sys.path.insert(0, str(package_folder()))
import parashard

pytestmark = pytest.mark.usefixtures("one_thread", "shared_programs")


def load_example(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / f"examples/python/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_plain_loop(capsys):
    losses = load_example("plain").main()
    assert losses[-1] < 0.5 * losses[0]
    assert "of new points are right" in capsys.readouterr().out


def test_ppo():
    """A uniform policy adds four even tokens."""
    rewards = load_example("ppo").main()
    assert rewards[-1] > 5.5


def test_three_axes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    losses = load_example("three_axes").main()
    assert losses[-1] < 0.7 * losses[0]


class Sequences(torch.utils.data.Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        return (torch.arange(17) * 3 + index) % 64


def optimizer_fn(model):
    return torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-4)


def lr_scheduler_fn(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)


class Next(torch.nn.Module):
    """Predicts the next token of sequences by the language model of the example."""

    def __init__(self):
        super().__init__()
        self.language = load_example("three_axes").Language()

    def forward(self, batch):
        return self.language(batch[:, :-1], batch[:, 1:])


class Last(torch.nn.Module):
    """Predicts the last token of sequences by an MLP."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(64, 8)
        self.blocks = torch.nn.Sequential(*(layer for width in (128, 64, 64) for layer in (torch.nn.Linear(width, 64), torch.nn.GELU())))
        self.head = torch.nn.Linear(64, 64)

    def forward(self, batch):
        return torch.nn.functional.cross_entropy(self.head(self.blocks(self.embed(batch[:, :-1]).flatten(1))), batch[:, -1])


class Gpt2(torch.nn.Module):
    def __init__(self):
        from transformers import GPT2Config, GPT2LMHeadModel

        super().__init__()
        sizes = {"vocab_size": 64, "n_positions": 32, "n_embd": 32, "n_layer": 4, "n_head": 4, "use_cache": False}
        self.gpt = GPT2LMHeadModel(GPT2Config(**sizes, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0))

    def forward(self, batch):
        return self.gpt(input_ids=batch, labels=batch).loss


@pytest.mark.part(3)
@pytest.mark.parametrize("net, split", [(Next, "language.blocks."), (Last, "blocks."), (Gpt2, "gpt.transformer.h.")])
def test_the_sample_of_vescale(tmp_path, net, split):
    """The program of veScale's RFC, with `example=` added. A run under another plan continues it as an unbroken run of PyTorch does."""

    def run_epoch(model, optimizer, scheduler, loader):
        losses = []
        for batch in loader:
            optimizer.zero_grad()
            loss = model(batch)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        scheduler.step()
        return losses

    torch.manual_seed(0)
    expected = net()
    reference = optimizer_fn(expected)
    order = torch.utils.data.DataLoader(Sequences(), 8, shuffle=True, generator=torch.Generator().manual_seed(0))
    theirs = [expected, reference, lr_scheduler_fn(reference), order]

    torch.manual_seed(0)
    model = parashard.deferred_init(net)
    constraints = {"mesh": "dp=2,pp=2,tp=2", "pipeline_parallel.split_method": "flops", "tensor_parallel.sharding_policy": "megatron"}
    batch = next(iter(torch.utils.data.DataLoader(Sequences(), 8)))
    plan = parashard.generate_plan(constraints, model, example=batch, ranks=8, cluster="cpu-mpi", optimizer_fn=optimizer_fn)
    assert 'pipeline_parallel.split_points : ["' + split in str(plan) and "[Shard(dim=0)]" in str(plan)
    ours = parashard.parallelize(plan, model, optimizer_fn, lr_scheduler_fn, Sequences(), batch_size=8)
    losses = run_epoch(*ours)
    names = ("model", "optimizer", "lr_scheduler", "data_loader")
    parashard.save(tmp_path / "checkpoint", {"plan": plan, **dict(zip(names, ours))})
    other = parashard.parallelize(parashard.Plan("dp=4", zero=3), parashard.deferred_init(net), optimizer_fn, lr_scheduler_fn, Sequences(), batch_size=8)
    parashard.load(tmp_path / "checkpoint", dict(zip(names, other)))
    losses += run_epoch(*other)
    assert losses == pytest.approx(run_epoch(*theirs) + run_epoch(*theirs), rel=1e-6)
