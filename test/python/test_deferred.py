"""deferred_init builds models without memory, and draws the values of the usual construction, bit by bit."""

import resource
import subprocess
import sys

import pytest
import torch
from conftest import ROOT, package_folder, tools_folder

sys.path.insert(0, str(package_folder()))
import parashard
from parashard.deferred import draw_parameters

pytestmark = pytest.mark.usefixtures("one_thread", "shared_programs")


class Net(torch.nn.Module):
    """Parameters with all kinds of initial values: defaults, several initializers, slices, values of others, tied ones, data."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(10, 8, padding_idx=3)
        self.head = torch.nn.Linear(8, 10, bias=False)
        self.head.weight = self.embed.weight
        self.linear, self.norm = torch.nn.Linear(8, 8), torch.nn.LayerNorm(8)
        self.scale = torch.nn.Parameter(torch.full((8,), 0.5))
        self.table = torch.nn.Parameter(torch.empty(8, 8))
        torch.nn.init.trunc_normal_(self.table, std=0.02)
        self.other, self.unset = torch.nn.Linear(8, 8), torch.nn.Parameter(torch.zeros(3))
        torch.nn.init.orthogonal_(self.other.weight)
        torch.nn.init.normal_(self.linear.weight, std=0.5)
        with torch.no_grad():
            self.table[0].fill_(0.25)
            self.other.bias.copy_(self.linear.bias * 2 + self.norm.weight)
            self.linear.bias.data = torch.nn.functional.pad(self.linear.bias.data[:6], (0, 2))
        self.register_buffer("positions", torch.arange(8.0))

    def forward(self, input):
        x = self.embed(input) * self.positions / torch.arange(1, 9)
        return self.head(self.other(self.norm(self.linear(x) @ self.table * self.scale)))


def make_models(name):
    import transformers

    if name == "Net":
        return Net
    small = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 96}
    config = getattr(transformers, f"{name}Config")(**small)
    return lambda: transformers.AutoModel.from_config(config)


@pytest.mark.parametrize("name", ["Net", "Bert", "Llama"])
def test_values_equal_those_of_the_usual_construction(name):
    make = make_models(name)
    torch.manual_seed(1)
    expected = dict(make().named_parameters())
    torch.manual_seed(1)
    model = parashard.deferred_init(make)
    assert all(parameter.device.type == "meta" for parameter in model.parameters())
    drawn = dict(draw_parameters(model))
    assert drawn.keys() == expected.keys()
    for name, values in drawn.items():
        assert torch.equal(values, expected[name]), name


def train(model):
    tokens = torch.randint(0, 10, (4, 6), generator=torch.Generator().manual_seed(0))
    model, optimizer = parashard.parallelize("dp=2", model, lambda model: torch.optim.SGD(model.parameters(), lr=0.1), example=tokens)
    losses = []
    for _ in range(2):
        loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_training_equals_that_of_the_usual_construction():
    """The model combines parameters with other tensors of the CPU, which the device `meta` would not allow."""
    torch.manual_seed(1)
    expected = train(Net())
    torch.manual_seed(1)
    assert train(parashard.deferred_init(Net)) == expected


def test_values_that_would_be_lost_are_errors():
    class Spectral(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)
            self.register_buffer("norm", self.linear.weight.detach().norm())

    with pytest.raises(parashard.Unsupported, match="buffer norm is computed from a parameter"):
        parashard.deferred_init(Spectral)
    model = parashard.deferred_init(Net)
    with torch.no_grad():
        model.linear.weight.mul_(2)
    with pytest.raises(parashard.Unsupported, match=r"parameter linear\.weight was changed after deferred_init"):
        train(model)
    with torch.device("meta"):
        model = Net()
    with pytest.raises(parashard.InputError, match=r"\S+ has no data .*; build the model with parashard.deferred_init"):
        train(model)


PLAN_LARGE = """
import resource, torch, transformers, parashard
config = transformers.LlamaConfig(vocab_size=32000, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16,
                                  num_attention_heads=16, num_key_value_heads=4)
model = parashard.deferred_init(transformers.AutoModelForCausalLM.from_config, config)
tokens = torch.zeros(16, 64, dtype=torch.long)
plan = parashard.generate_plan({}, model, example={"input_ids": tokens, "labels": tokens}, cluster="h100-sxm:8")
print(sum(p.numel() for p in model.parameters()) * 4, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


@pytest.mark.full
def test_a_large_model_is_planned_in_little_memory(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(package_folder()))
    monkeypatch.setenv("PARASHARD_BIN", str(tools_folder()))
    done = subprocess.run([sys.executable, "-c", PLAN_LARGE], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    size, memory = map(int, done.stdout.split())
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    assert size > 4e9 and memory < 1e9, (size, memory, children)
