"""Inference entries (`ps-compile --entry`) share the variables of the model, and keep the buffers that they write."""

import oracle
import pytest
import torch
from capi import Program
from conftest import tools_folder
from refusals import refuse

ROWS, WIDTH = 8, 6


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.blocks = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x, target):
        for block in self.blocks:
            x = torch.tanh(block(x))
        return torch.nn.functional.mse_loss(x, target)


class Decode(torch.nn.Module):
    """Adds the activations of all calls in buffers, one per block. Writes its input into one row of a table."""

    def __init__(self, net):
        super().__init__()
        self.blocks = net.blocks
        for i in range(len(self.blocks)):
            self.register_buffer(f"seen_{i}", torch.zeros(ROWS, WIDTH), persistent=False)
        self.register_buffer("table", torch.zeros(ROWS, 5, WIDTH), persistent=False)
        self.register_buffer("calls", torch.zeros(1), persistent=False)

    def forward(self, x, position):
        self.calls.add_(1)
        self.table.index_copy_(1, position, x[:, None])
        for i, block in enumerate(self.blocks):
            seen = getattr(self, f"seen_{i}")
            seen.add_(torch.tanh(block(x)))
            x = seen.clone()
        return {"y": x, "table": self.table * 1, "calls": self.calls * 1}


class Peek(Decode):
    """Reads a buffer that another entry writes."""

    def forward(self, x):
        return {"seen": self.seen_0 + x * 0}


def export(path, module, **inputs):
    torch.export.save(torch.export.export(module, (), inputs), path)
    return path


def compile_entries(folder, *flags):
    net = Net()
    x = torch.randn(ROWS, WIDTH)
    export(folder / "net.pt2", net, x=x, target=x.clone())
    export(folder / "decode.pt2", Decode(net), x=x, position=torch.tensor([1]))
    export(folder / "peek.pt2", Peek(net), x=x)
    entries = ("--entry", "decode=decode.pt2", "--entry", "peek=peek.pt2", "--batch-dim", "position=none")
    oracle.run([tools_folder() / "ps-compile", "net.pt2", "-o", "net.so", *entries, *flags], folder)
    return net


MESHES = {"dp=1": (), "dp=2,tp=2": (), "dp=2": ("--zero", "3"), "pp=2": ("--micro-batches", "2", "--batch", str(ROWS))}


@pytest.mark.parametrize("mesh", MESHES)
def test_entries_share_weights_and_keep_buffers(tmp_path, mesh):
    net = compile_entries(tmp_path, "--mesh", mesh, "--optimizer", "sgd(lr=0.5)", *MESHES[mesh])
    expected, optimizer = Decode(net), torch.optim.SGD(net.parameters(), lr=0.5)
    program = Program(tmp_path / "net.so")
    micro_batches = 2 if "--micro-batches" in MESHES[mesh] else 1
    for call in range(3):
        x = torch.randn(ROWS, WIDTH)
        outputs = {name: torch.empty_like(value) for name, value in expected(x, torch.tensor([call])).items()}
        program.call("decode", {"x": x, "position": torch.tensor([call])}, outputs)
        for name, value in {"y": expected.seen_3, "table": expected.table, "calls": expected.calls}.items():
            torch.testing.assert_close(outputs[name], value, rtol=1e-5, atol=1e-6, msg=f"{name} in call {call}")
        seen = {"seen": torch.empty(ROWS, WIDTH)}
        program.call("peek", {"x": x}, seen)
        torch.testing.assert_close(seen["seen"], expected.seen_0, rtol=1e-5, atol=1e-6)
        batch, target = torch.randn(2, ROWS * micro_batches, WIDTH)
        program.step({"x": batch, "target": target})
        optimizer.zero_grad()
        net(batch, target).backward()
        optimizer.step()
    program.set("seen_3", torch.zeros(ROWS, WIDTH))
    assert program.get("seen_3", expected.seen_3).abs().max() == 0
    torch.testing.assert_close(program.get("seen_0", expected.seen_0), expected.seen_0, rtol=1e-5, atol=1e-6)
    program.close()


def test_entries_of_an_inference_program(tmp_path):
    net = compile_entries(tmp_path, "--inference")
    program, expected, x = Program(tmp_path / "net.so"), Decode(net), torch.randn(ROWS, WIDTH)
    for _ in range(2):
        outputs = {"y": torch.empty(ROWS, WIDTH)}
        program.call("decode", {"x": x, "position": torch.tensor([0])}, outputs)
        torch.testing.assert_close(outputs["y"], expected(x, torch.tensor([0]))["y"], rtol=1e-5, atol=1e-6)
    with pytest.raises(RuntimeError, match='position.*5'):  # out of range
        program.call("decode", {"x": x, "position": torch.tensor([5])}, outputs)
    with pytest.raises(RuntimeError, match='has no entry "encode"; it has: .*decode, peek'):
        program.call("encode", {"x": x}, outputs)
    program.close()


def test_entries_with_wrong_names_or_variables(tmp_path):
    net, x = Net(), torch.randn(ROWS, WIDTH)
    export(tmp_path / "net.pt2", net, x=x, target=x.clone())
    command = [tools_folder() / "ps-compile", "net.pt2", "-o", "net.so", "--entry"]
    for name in ("step", "evaluate", "forward", "backward", "update", "count", "micro_batch", "lr"):
        refuse([*command, f"{name}=net.pt2"], tmp_path, 2, f"--entry {name}=net.pt2", f"the compiler uses the name '{name}'")
    refuse([*command, "1st=net.pt2"], tmp_path, 2, "a letter or _, then letters, digits and _")
    refuse([*command, "decode=missing.pt2"], tmp_path, 2, "'missing.pt2' is not a readable file")
    refuse([*command, "decode"], tmp_path, 2, "takes NAME=FILE.pt2")
    refuse([*command, "d=net.pt2", "--entry", "d=net.pt2"], tmp_path, 2, "the name 'd' is given twice")
    other = Net()
    other.blocks[1] = torch.nn.Linear(WIDTH, WIDTH).double()
    export(tmp_path / "other.pt2", other.double(), x=x.double(), target=x.double().clone())
    refuse([*command, "decode=other.pt2"], tmp_path, 1, "the entry @decode has the parameter 'blocks.0.weight' : 'tensor<6x6xf64>'",
           "'tensor<6x6xf32>' in the model", "the model or an earlier entry defines it here", "export both from the same modules")  # fmt: skip
