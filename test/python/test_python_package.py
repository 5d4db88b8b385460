"""The Python package: the loop of PyTorch trains a compiled model on many ranks, and equals PyTorch."""

import concurrent.futures
import copy
import gc
import math
import os
import pathlib
import subprocess
import sys
import weakref

import models
import pytest
import torch
from conftest import package_folder, tools_folder

sys.path.insert(0, str(package_folder()))
import parashard

pytestmark = pytest.mark.usefixtures("one_thread", "shared_programs")
cross_entropy = torch.nn.functional.cross_entropy


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(12, 24)
        self.down = torch.nn.Linear(24, 10)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net()


def sgd(module):
    return torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)


def adamw(module):
    return torch.optim.AdamW(module.parameters(), lr=1e-2, betas=(0.8, 0.95), weight_decay=0.1)


def grouped(module):
    """Weights decay, biases do not and have another learning rate."""
    weights = [p for p in module.parameters() if p.dim() > 1]
    biases = [p for p in module.parameters() if p.dim() == 1]
    return torch.optim.Adam([{"params": biases, "lr": 3e-3}, {"params": weights, "weight_decay": 0.1}], lr=1e-2)


def draw(step, part=0):
    generator = torch.Generator().manual_seed(100 * step + part)
    return torch.randn(8, 12, generator=generator), torch.randint(0, 10, (8,), generator=generator)


def train(model, optimizer, scheduler=None, steps=range(6), parts=2, norm=0.5):
    """Trains with accumulation, clipping and a scheduler. Returns the losses."""
    losses = []
    for step in steps:
        optimizer.zero_grad()
        for part in range(parts):
            x, y = draw(step, part)
            loss = cross_entropy(model(x), y)
            (loss / parts).backward()
            losses.append(loss.item())
        if norm:
            torch.nn.utils.clip_grad_norm_(model.parameters(), norm)
        optimizer.step()
        if scheduler:
            scheduler.step()
    return losses


def step_lr(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)


def one_cycle(optimizer):
    """Also changes the momentum, or the first beta."""
    return torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.05, total_steps=6)


def assert_equal(found, expected, tolerance=1e-6):
    """Compares all parameters and buffers."""
    found, expected = found.state_dict(), expected.state_dict()
    assert list(found) == list(expected)
    for name, value in expected.items():
        torch.testing.assert_close(found[name].clone(), value, rtol=tolerance, atol=tolerance, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("mesh, optimizer_fn, scheduler_fn, flags", [
    ("dp=2,tp=2", adamw, step_lr, {}),
    ("dp=2", sgd, one_cycle, {"zero": 1}),
    ("dp=2", adamw, one_cycle, {}),
    ("dp=2", grouped, step_lr, {"zero": 3}),
    ("tp=2", grouped, None, {"sharding-policy": "megatron"}),
    ("tp=2", sgd, None, {"sharding-policy": {"up.weight": {"0": ["tp"]}, "down.weight": {"1": ["tp"]}}}),
])  # fmt: skip
def test_the_loop_of_pytorch(net, mesh, optimizer_fn, scheduler_fn, flags):
    expected = copy.deepcopy(net)
    plan = parashard.Plan(mesh, **flags)
    model, optimizer, *scheduler = parashard.parallelize(plan, net, optimizer_fn, scheduler_fn, example=draw(0)[0])
    reference = optimizer_fn(expected)
    theirs = train(expected, reference, scheduler_fn and scheduler_fn(reference))
    ours = train(model, optimizer, *scheduler)
    assert ours == pytest.approx(theirs, rel=1e-6)
    assert [group["lr"] for group in optimizer.param_groups] == [group["lr"] for group in reference.param_groups]
    assert_equal(model, expected)


class Sequence:
    """A scheduler that sets all hyperparameters of all groups, to other values in each step."""

    def __init__(self, optimizer):
        self.optimizer, self.at = optimizer, 0
        self.decays = [group["weight_decay"] > 0 for group in optimizer.param_groups]

    def step(self):
        self.at += 1
        for index, group in enumerate(self.optimizer.param_groups):
            group["lr"] = 0.01 / (self.at + index)
            if group.get("momentum"):
                group["momentum"] = (0.5, 0.8, 0.95)[self.at % 3]
            if "betas" in group:
                group["betas"] = ((0.9, 0.999), (0.0, 0.5), (0.7, 0.0))[(self.at + index) % 3]
            if self.decays[index]:
                group["weight_decay"] = (0.3, 0.0, 0.02)[self.at % 3]


class Renamed(torch.nn.Module):
    """A model whose parameters are named like hyperparameters. It does not use one of them."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.momentum = torch.nn.Linear(12, 10)
        self.lr, self.beta1 = (torch.nn.Parameter(torch.ones(10)) for _ in range(2))

    def forward(self, x):
        return self.momentum(x) * self.lr


def test_parameters_named_like_hyperparameters():
    """The unused parameter is in a group of its own, which has no scalars in the program."""

    def optimizer_fn(module):
        groups = [{"params": [module.beta1]}, {"params": [module.lr, *module.momentum.parameters()]}]
        return torch.optim.SGD(groups, lr=0.1, momentum=0.9, weight_decay=0.01)

    net = Renamed()
    expected = copy.deepcopy(net)
    with pytest.warns(UserWarning, match="beta1"):
        model, optimizer = parashard.parallelize("dp=2", net, optimizer_fn, example=draw(0)[0])
    reference = optimizer_fn(expected)
    theirs = train(expected, reference, Sequence(reference), steps=range(3))
    assert train(model, optimizer, Sequence(optimizer), steps=range(3)) == pytest.approx(theirs, rel=1e-6)
    assert_equal(model, expected)


@pytest.mark.parametrize("kind", [sgd, adamw, grouped])
def test_hyperparameters_change(net, kind):
    """Changes lr, momentum, betas and weight_decay in each step, also to 0 and back. A weight_decay compiled as 0 cannot change."""

    def optimizer_fn(module):
        """A large eps keeps rounding errors of tiny gradients small."""
        optimizer = kind(module)
        for group in optimizer.param_groups:
            group.update({"eps": 1e-3} if "eps" in group else {})
        return optimizer

    expected = copy.deepcopy(net)
    model, optimizer = parashard.parallelize("dp=2", net, optimizer_fn, example=draw(0)[0])
    reference = optimizer_fn(expected)
    theirs = train(expected, reference, Sequence(reference), steps=range(3))
    assert train(model, optimizer, Sequence(optimizer), steps=range(3)) == pytest.approx(theirs, rel=1e-6)
    assert_equal(model, expected)
    if kind is grouped:
        optimizer.param_groups[0]["weight_decay"] = 0.1
        with pytest.raises(parashard.Unsupported, match="weight_decay changed to 0.1, but the program was compiled with weight_decay=0"):
            optimizer.step()


def test_logits_of_a_transformer(tmp_path):
    """Trains a GPT by a loss of labels outside of the graph, with labels that are ignored."""
    torch.manual_seed(0)
    described = models.gpt(loss=False)
    expected = copy.deepcopy(described.module)
    inputs = described.draw_inputs(0)
    model, optimizer = parashard.parallelize("dp=2,tp=2", described.module, adamw, example=inputs)
    reference = adamw(expected)
    for step in range(3):
        inputs = described.draw_inputs(step)
        labels = torch.roll(inputs["input_ids"], -1, 1).masked_fill(inputs["input_ids"] % 5 == 0, -100)
        losses = []
        for module, update in ((expected, reference), (model, optimizer)):
            update.zero_grad()
            loss = cross_entropy(module(**inputs).flatten(0, 1), labels.flatten())
            loss.backward()
            update.step()
            losses.append(loss.item())
        assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    with torch.no_grad():
        model.eval(), expected.eval()
        torch.testing.assert_close(model(**inputs), expected(**inputs), rtol=1e-4, atol=1e-4)


def test_two_models_with_a_pending_forward_each(net):
    """Calls the first model twice before its backward, as in PPO, while a second model trains."""
    actor, critic = net, copy.deepcopy(net)
    references = [(m := copy.deepcopy(net), sgd(m)) for _ in range(2)]
    ours = [parashard.parallelize(mesh, module, sgd, example=draw(0)[0]) for mesh, module in (("dp=2", actor), ("tp=2", critic))]
    for (a, a_update), (c, c_update) in (references, ours):
        for step in range(3):
            (x, y), (other, labels) = draw(step), draw(step, 1)
            first = a(x)
            second = a(other)
            value = c(x).pow(2).mean()
            value.backward()
            (cross_entropy(second, labels) + 0.5 * cross_entropy(first, y)).backward()
            for update in (a_update, c_update):
                update.step()
                update.zero_grad()
    for (found, _), (expected, _) in zip(ours, references):
        assert_equal(found, expected)


@pytest.mark.parametrize("optimizer_fn", [sgd, grouped])
def test_state_dicts_there_and_back(net, tmp_path, optimizer_fn):
    """A run of PyTorch continues as a compiled one and the other way round. The files are those of torch.save."""
    straight = copy.deepcopy(net)
    train(straight, optimizer_fn(straight), steps=range(6))

    first = copy.deepcopy(net)
    update = optimizer_fn(first)
    train(first, update, steps=range(2))
    torch.save({"model": first.state_dict(), "optimizer": update.state_dict()}, tmp_path / "torch.pt")

    model, optimizer = parashard.parallelize("dp=2", net, optimizer_fn, example=draw(0)[0])
    state = torch.load(tmp_path / "torch.pt")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    train(model, optimizer, steps=range(2, 4))
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "ours.pt")

    state = torch.load(tmp_path / "ours.pt", weights_only=False)
    last = Net()
    last.load_state_dict(state["model"])
    update = optimizer_fn(last)
    update.load_state_dict(state["optimizer"])
    train(last, update, steps=range(4, 6))
    assert_equal(last, straight)


def test_a_frozen_parameter_and_a_term_outside_of_the_graph(net):
    """Trains one layer with a penalty on its weights that PyTorch computes."""
    net.up.requires_grad_(False)
    expected = copy.deepcopy(net)

    def optimizer_fn(module):
        return torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=0.1)

    model, optimizer = parashard.parallelize("dp=2,tp=2", net, optimizer_fn, example=draw(0)[0])
    for module, update in ((model, optimizer), (expected, optimizer_fn(expected))):
        for step in range(3):
            x, y = draw(step)
            update.zero_grad()
            (cross_entropy(module(x), y) + 0.05 * module.down.weight.pow(2).sum()).backward()
            update.step()
    assert model.up.weight.grad is None
    assert_equal(model, expected)


def assign(model):
    for parameter in model.parameters():
        parameter.grad = parameter.grad * 0.1


def zero_in_place(model):
    model.zero_grad(set_to_none=False)


def reset(model):
    for parameter in model.parameters():
        parameter.grad = None


def fill(model):
    reset(model)
    for parameter in model.parameters():
        parameter.grad = torch.ones(parameter.shape)


def double(model):
    for parameter in model.parameters():
        parameter.data = parameter.data * 2


@pytest.mark.parametrize("change", [assign, zero_in_place, reset, fill, double])
def test_gradients_and_weights_that_the_loop_changes(net, change):
    """Changes gradients or weights after each backward, without zero_grad of the optimizer in between."""
    expected = copy.deepcopy(net)
    model, optimizer = parashard.parallelize("dp=2", net, sgd, example=draw(0)[0])
    for module, update in ((expected, sgd(expected)), (model, optimizer)):
        for step in range(3):
            x, y = draw(step)
            cross_entropy(module(x), y).backward()
            change(module)
            update.step()
    assert_equal(model, expected)


def test_optimizer_state_is_reset(net):
    """A state dict from before the first step resets the moments."""
    expected = copy.deepcopy(net)
    model, optimizer = parashard.parallelize("dp=2", net, adamw, example=draw(0)[0])
    for module, update in ((expected, adamw(expected)), (model, optimizer)):
        weights, state = copy.deepcopy(module.state_dict()), copy.deepcopy(update.state_dict())
        train(module, update)
        module.load_state_dict(weights)
        update.load_state_dict(state)
        train(module, update, steps=range(2))
    assert_equal(model, expected)


def test_models_are_freed(net):
    model, optimizer = parashard.parallelize("dp=2", net, sgd, example=draw(0)[0])
    train(model, optimizer, steps=range(1))
    left = weakref.ref(model)
    del model, optimizer
    gc.collect()
    assert left() is None


def test_threads_share_a_model(net):
    model, _ = parashard.parallelize("dp=2", net, sgd, example=draw(0)[0])
    model.eval(), net.eval()

    def is_equal(step):
        x = draw(step)[0]
        return torch.allclose(model(x), net(x), atol=1e-5)

    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        assert all(threads.map(is_equal, range(200)))


def test_a_flat_dict(net):
    class Named(Net):
        def forward(self, x):
            return {"logits": super().forward(x)}

    module = Named()
    module.load_state_dict(net.state_dict())
    model, _ = parashard.parallelize("dp=2", module, sgd, example=draw(0)[0])
    x, y = draw(0)
    loss = cross_entropy(model(x)["logits"], y)
    loss.backward()
    cross_entropy(net(x), y).backward()
    torch.testing.assert_close(model.down.weight.grad.clone(), net.down.weight.grad)


class Unused(Net):
    def forward(self, x, length):
        return super().forward(x)


def test_an_argument_that_forward_does_not_use():
    net = Unused()
    model, _ = parashard.parallelize("dp=2", net, sgd, example=(draw(0)[0], torch.ones(8)))
    torch.testing.assert_close(model(draw(0)[0], length=torch.ones(8)), net(draw(0)[0], None))


class Outputs(Net):
    """Returns a dict with a tensor that occurs twice, an integer tensor and None. Has a tied weight and a batch norm."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(12)
        self.tied = torch.nn.Linear(24, 10)
        self.tied.weight = self.down.weight

    def forward(self, x, scale=None):
        hidden = torch.relu(self.up(self.norm(x)))
        logits = self.down(hidden)
        return {"logits": logits, "again": (logits, self.tied(hidden)), "top": logits.argmax(1), "none": scale}


def test_outputs_tied_weights_and_statistics():
    torch.manual_seed(0)
    net = Outputs()
    expected = copy.deepcopy(net)
    model, optimizer = parashard.parallelize("dp=2", net, sgd, example={"x": draw(0)[0]})
    for module, update in ((expected, sgd(expected)), (model, optimizer)):
        for step in range(3):
            x, y = draw(step)
            out = module(x=x)
            assert list(out) == ["logits", "again", "top", "none"] and out["none"] is None
            assert torch.equal(out["logits"], out["again"][0]) and torch.equal(out["top"], out["logits"].argmax(1))
            update.zero_grad()
            (cross_entropy(out["again"][1], y) + out["again"][0].pow(2).mean()).backward()
            update.step()
    assert model.tied.weight is model.down.weight
    assert_equal(model, expected)
    torch.testing.assert_close(model.eval()(x)["logits"], expected.eval()(x)["logits"], rtol=1e-5, atol=1e-5)


def test_reading_and_writing_parameters(net):
    model, _ = parashard.parallelize("dp=2", net, sgd, example=draw(0)[0])
    weight, expected = model.up.weight, net.up.weight
    with torch.no_grad():
        for tensor in (weight, expected):
            tensor.mul_(0.5)
            tensor[0] = 1
            tensor.T[3, 4:].add_(2)
            tensor.data[2:4].zero_()
            torch.nn.init.ones_(tensor[5])
            for part in tensor[:, 6:].chunk(3, dim=1):
                part.neg_()
            torch._foreach_add_([tensor[0], tensor[6]], 3)
            tensor[7].copy_(tensor[8])
    assert torch.equal(weight, expected) and torch.equal(weight[4], expected[4])
    assert weight.sum().item() == expected.sum().item() and weight.tolist() == expected.tolist()
    assert repr(model) == repr(net).replace("Net(", "CompiledModel(")
    x = draw(0)[0]
    torch.testing.assert_close(model.eval()(x), net.eval()(x))


@pytest.mark.parametrize("change, error, message", [
    (lambda m, o: m(torch.zeros(6, 12)), "InputError", "the inputs have 6 rows, but"),
    (lambda m, o: m(torch.zeros(8, 12, dtype=torch.float64)), "InputError", "x"),
    (lambda m, o: m(), "InputError", "missing a required argument: 'x'"),
    (lambda m, o: m(3), "InputError", "argument x of Net.forward is int"),
    (lambda m, o: m(torch.zeros(8, 12, dtype=torch.complex64)), "InputError", "torch.complex64, which programs do not support"),
    (lambda m, o: copy.deepcopy(m), "Unsupported", "cannot be copied or pickled"),
    (lambda m, o: torch.save(m, os.devnull), "Unsupported", "cannot be copied or pickled"),
    (lambda m, o: m(torch.zeros(8, 12, requires_grad=True)), "Unsupported", "input x requires a gradient"),
    (lambda m, o: [m(torch.zeros(8, 12)) for _ in range(17)], "Unsupported", "too many forwards wait"),
    (lambda m, o: backward_twice(m), "Unsupported", "retain_graph"),
    (lambda m, o: o.param_groups[0].update(dampening=0.5) or o.step(), "Unsupported", "dampening changed to 0.5, but is compiled"),
    (lambda m, o: o.param_groups[0].update(momentum=0) or o.step(), "InputError", '"momentum" cannot be 0; expected a number above 0'),
    (lambda m, o: o.param_groups[0].update(momentum=math.nan) or o.step(), "InputError", '"momentum" cannot be nan'),
    (lambda m, o: o.param_groups[0].update(weight_decay=-1) or o.step(), "InputError", '"weight_decay" cannot be -1'),
    (lambda m, o: m.up.requires_grad_(False) and o.step(), "Unsupported", "requires_grad of up.weight changed to False"),
    (lambda m, o: o.add_param_group({"params": [torch.nn.Parameter(torch.zeros(1))]}), "Unsupported", "takes no further parameter groups"),
    (lambda m, o: m.to("cuda"), "Unsupported", "keeps the devices and dtypes of its plan"),
    (lambda m, o: m.half(), "Unsupported", "precision"),
    (lambda m, o: m.up.eval() and m(torch.zeros(8, 12)), "Unsupported", "up is in evaluation mode"),
    (lambda m, o: m.load_state_dict(m.state_dict(), assign=True), "Unsupported", "assign=True"),
    (lambda m, o: setattr(m.up, "weight", torch.nn.Parameter(torch.zeros(24, 12))), "Unsupported", "cannot be replaced"),
    (lambda m, o: m.up.weight.register_hook(print), "Unsupported", "hooks on parameters"),
    (lambda m, o: m.up.weight.data_ptr(), "Unsupported", "call clone"),
    (lambda m, o: step_before_backward(m, o), "Unsupported", "ran between the forward and this backward"),
    (lambda m, o: one_gradient(m, o), "Unsupported", "the gradient of .* is None, but"),
    (lambda m, o: m.close() or m(torch.zeros(8, 12)), "InputError", "the program is closed"),
])  # fmt: skip
def test_bad_use(net, change, error, message):
    model, optimizer = parashard.parallelize("dp=2", net, sgd, example=draw(0)[0])
    with pytest.raises(getattr(parashard, error), match=message):
        kept = change(model, optimizer)
        assert kept is None


def backward_twice(model):
    loss = model(torch.zeros(8, 12)).sum()
    loss.backward(retain_graph=True)
    loss.backward()


def step_before_backward(model, optimizer):
    first, second = model(torch.zeros(8, 12)).sum(), model(torch.ones(8, 12)).sum()
    first.backward()
    optimizer.step()
    second.backward()


def one_gradient(model, optimizer):
    model(torch.zeros(8, 12)).sum().backward()
    model.up.weight.grad = None
    optimizer.step()


class Branches(Net):
    def forward(self, x):
        return super().forward(x) if x.sum() > 0 else x


@pytest.mark.parametrize("plan, module, optimizer_fn, error, message", [
    ("dp=3", Net(), sgd, "CompileError", "8"),
    ("pp=2", Net(), sgd, "Unsupported", "pipeline axis"),
    (parashard.Plan("dp=2", precision="fp16"), Net(), sgd, "Unsupported", "fp16 scales the loss"),
    ("dp=2", Net(), lambda m: torch.optim.Adam(m.parameters(), decoupled_weight_decay=True), "Unsupported", "decoupled_weight_decay=True"),
    (parashard.Plan("dp=2", sharding_policy={"*": "replicated"}), Net(), sgd, "CompileError", "sharding-policy"),
    ("dp", Net(), sgd, "InputError", "axis dp has the size ''"),
    ("dp=2,dp=4", Net(), sgd, "InputError", "axis dp occurs twice"),
    (parashard.Plan("dp=2", nonsense=1), Net(), sgd, "CompileError", "nonsense"),
    ("dp=2", Net(), lambda m: torch.optim.RMSprop(m.parameters()), "Unsupported", "optimizer RMSprop is not supported; use torch.optim.SGD"),
    ("dp=2", Net(), lambda m: torch.optim.Adam(m.parameters(), amsgrad=True), "Unsupported", "amsgrad=True"),
    ("dp=2", Net(), lambda m: sgd(Net()), "InputError", "is not in the model"),
    ("dp=2", Branches(), sgd, "ExportFailed", "torch.where"),
])  # fmt: skip
def test_bad_plans_and_models(plan, module, optimizer_fn, error, message):
    with pytest.raises(getattr(parashard, error), match=message) as raised:
        parashard.parallelize(plan, module, optimizer_fn, example=draw(0)[0])
    assert isinstance(raised.value, parashard.Error)
    if error == "CompileError":
        assert raised.value.command.startswith(str(tools_folder()))


class Remainder(torch.nn.Module):
    def forward(self, x):
        return x % 2.0


class Rest(Net):
    def __init__(self):
        super().__init__()
        self.remainder = Remainder()

    def forward(self, x):
        return self.remainder(super().forward(x))


def test_diagnostics_have_the_line_of_the_model():
    with pytest.raises(parashard.CompileError) as raised:
        parashard.parallelize("dp=2", Rest(), sgd, example=draw(0)[0])
    error = next(found for found in raised.value.diagnostics if found.severity == "error")
    assert isinstance(error, parashard.Diagnostic) and error.module == "remainder" and "the remainder of floating-point numbers" in error.text
    assert error.file == __file__ and error.source == "return x % 2.0"
    text = str(raised.value)
    assert f"remainder (test_python_package.py:{error.line}): error: " in text and error.source in text and raised.value.command in text


def test_a_compiled_program_is_found_again(net, tmp_path, monkeypatch):
    """Other weights use the same program; another hyperparameter does not."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "parashard/programs"
    parashard.parallelize("dp=2", net, adamw, example=draw(0)[0])
    before = set(folder.iterdir())
    model, _ = parashard.parallelize("dp=2", Net(), adamw, example=draw(0)[0])
    assert set(folder.iterdir()) == before
    parashard.parallelize("dp=2", net, lambda m: torch.optim.AdamW(m.parameters(), lr=1e-2, weight_decay=0.2), example=draw(0)[0])
    assert len(set(folder.iterdir()) - before) == 1
    assert model.up.weight.sum().item() != net.up.weight.sum().item()


def test_a_cache_that_cannot_be_written(net, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(parashard.Error, match="cannot be written to .*; set XDG_CACHE_HOME"):
        parashard.parallelize("dp=2", net, sgd, example=draw(0)[0])


def test_plans_are_values():
    first, second = parashard.Plan("dp=2", zero=1), parashard.Plan({"dp": 2}, zero=1)
    assert first == second and hash(first) == hash(second) and first != second.replace(zero=2)


def test_plans_are_files_of_the_compiler(tmp_path):
    plan = parashard.Plan({"dp": 2, "tp": 4}, zero=1, sharding_policy="megatron+sp")
    assert str(plan) == "--mesh dp=2,tp=4 --zero 1 --sharding-policy megatron+sp" and plan.ranks == 8
    plan.save(tmp_path / "plan.json")
    assert parashard.Plan.load(tmp_path / "plan.json") == plan
    (tmp_path / "bad.json").write_text("[1]")
    with pytest.raises(parashard.InputError, match="bad.json: the file has a list; expected an object"):
        parashard.Plan.load(tmp_path / "bad.json")
    assert plan.replace("dp=4", zero=None) == parashard.Plan("dp=4", sharding_policy="megatron+sp")
    assert subprocess.run([tools_folder() / "ps-compile", "--plan", tmp_path / "plan.json", "--help"], capture_output=True).returncode == 0


def test_import_is_light():
    """`import parashard` needs less than 0.1 s of processor time, and loads neither PyTorch nor LLVM."""
    code = "import sys, time; t = time.process_time(); import parashard; print(time.process_time() - t, 'torch' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(package_folder())}
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True).stdout.split()
    assert float(said[0]) < 0.1 and said[1] == "False"
    maps = "import torch, parashard._runtime; print('libLLVM' in open('/proc/self/maps').read())"
    assert subprocess.run([sys.executable, "-c", maps], capture_output=True, text=True, env=environment, check=True).stdout == "False\n"


def test_the_page_of_the_package(tmp_path, monkeypatch):
    """Runs the Python code of docs/python.md."""
    monkeypatch.chdir(tmp_path)
    root = pathlib.Path(__file__).resolve().parents[2]
    blocks = (root / "docs/python.md").read_text().split("```python\n")[1:]
    code = "\n".join(block.split("```", 1)[0] for block in blocks)
    exec(compile(code, "docs/python.md", "exec"), {"__name__": "docs"})
