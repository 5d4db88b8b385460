"""Engine, the interface of ColossalAI's proposal: its sample loops train as PyTorch does on one device."""

import copy
import gc
import itertools
import pathlib
import sys
import warnings
import weakref

import pytest
import torch
from conftest import package_folder

sys.path.insert(0, str(package_folder()))
import parashard
from parashard import Engine, Plan
from parashard.plugins import PLUGINS, Axis, DataFirst, GeminiPlugin, HybridParallelPlugin, LowLevelZeroPlugin, Only, Refused, TorchDDPPlugin
from torch.optim import Adam
from transformers.modeling_outputs import CausalLMOutput

pytestmark = pytest.mark.usefixtures("one_thread", "shared_programs")
cross_entropy = torch.nn.functional.cross_entropy


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.mix, self.up, self.down = torch.nn.LayerNorm(16), torch.nn.Linear(16, 16), torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)

    def forward(self, x, mask):
        x = x + (self.mix(self.norm(x)) * mask).cumsum(1) / mask.cumsum(1)  # causal
        return x + self.down(torch.relu(self.up(x)))


class GPT2(torch.nn.Module):
    """A causal language model of two blocks, with a mask of padding."""

    def __init__(self, outputs=48):
        super().__init__()
        torch.manual_seed(0)
        self.embed = torch.nn.Embedding(48, 16)
        self.blocks = torch.nn.ModuleList([Block(), Block()])
        self.head = torch.nn.Linear(16, outputs)

    def forward(self, input_ids, attention_mask):
        x = self.embed(input_ids)
        for block in self.blocks:
            x = block(x, attention_mask[..., None].float())
        return CausalLMOutput(logits=self.head(x))


class GPTLMLoss(torch.nn.Module):
    def forward(self, logits, labels):
        return cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())


def pipeline_loss(outputs, inputs):
    return GPTLMLoss()(outputs.logits, inputs[0])


class Dataset(torch.utils.data.Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return torch.randint(0, 48, (8,), generator=generator), (torch.arange(8) < 5 + index % 4).long()


def make(kind=Adam):
    """Returns what the samples make before `initialize`: a model, its optimizer, a data loader and a scheduler."""
    model = GPT2()
    optimizer = kind(model.parameters(), lr=1e-2, eps=1e-3)  # the large eps keeps rounding errors of tiny gradients small
    dataloader = torch.utils.data.DataLoader(Dataset(), 8)
    lr_scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 4))
    return model, optimizer, lr_scheduler, dataloader


def train_by_pytorch(epochs=2, norm=0.0, kind=Adam):
    """Returns (losses, learning rates, model) of the plain loop in PyTorch."""
    model, optimizer, lr_scheduler, dataloader = make(kind)
    losses, rates = [], []
    for _ in range(epochs):
        for input_ids, attention_mask in dataloader:
            loss = GPTLMLoss()(model(input_ids, attention_mask).logits, input_ids)
            loss.backward()
            if norm:
                torch.nn.utils.clip_grad_norm_(model.parameters(), norm)
            optimizer.step()
            lr_scheduler.step()
            optimizer.zero_grad()
            losses.append(loss.item())
            rates.append(optimizer.param_groups[0]["lr"])
    return losses, rates, model


def assert_equal(found, expected, tolerance=1e-5):
    found, expected = found.state_dict(), expected.state_dict()
    assert list(found) == list(expected)
    for name, value in expected.items():
        torch.testing.assert_close(found[name].clone(), value, rtol=tolerance, atol=tolerance, msg=lambda text, name=name: f"{name}: {text}")


# ---- the four samples --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plugin, norm", [(lambda: GeminiPlugin(stage=3, ranks=2), 0.0), (lambda: TorchDDPPlugin(ranks=2), 0.3)])
def test_the_loop_without_pipeline(plugin, norm):
    plugin = plugin()
    engine = Engine(device="cpu", precision="fp32", parallelism_plugin=plugin, grad_clipping_value=norm)

    model, optimizer, lr_scheduler, dataloader = make()
    criterion = GPTLMLoss()
    model, optimizer, lr_scheduler, dataloader = engine.initialize(model, optimizer, lr_scheduler, dataloader)
    losses, rates = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # PyTorch warns if a scheduler runs before its optimizer
        for _ in range(2):
            for input_ids, attention_mask in dataloader:
                outputs = model(input_ids, attention_mask)
                loss = criterion(outputs.logits, input_ids)
                engine.backward(loss, optimizer)
                optimizer.step()
                lr_scheduler.step()
                optimizer.zero_grad()
                losses.append(loss.item())
                rates.append(optimizer.param_groups[0]["lr"])
    expected = train_by_pytorch(norm=norm)
    assert losses == pytest.approx(expected[0], rel=1e-6) and rates == expected[1]
    assert_equal(model, expected[2])


def test_the_loop_with_pipeline():
    plugin = HybridParallelPlugin(tp_size=1, pp_size=2, num_microbatches=2, zero_stage=1, ranks=4)
    engine = Engine(precision="fp32", parallelism_plugin=plugin)

    model, optimizer, lr_scheduler, dataloader = make()
    model, optimizer, lr_scheduler, dataloader = engine.initialize(model, optimizer, lr_scheduler, dataloader)
    losses = []
    for _ in range(2):
        num_steps = len(dataloader)
        for _ in range(num_steps):
            loss = engine.execute_pipeline(dataloader, model, pipeline_loss, optimizer, return_loss=True, return_outputs=False)
            optimizer.step()
            lr_scheduler.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    expected = train_by_pytorch()
    assert losses == pytest.approx(expected[0], rel=1e-6)
    assert_equal(model, expected[2])

    batch = next(iter(dataloader))
    model.eval(), expected[2].eval()
    loss, outputs = engine.execute_pipeline(batch, model, pipeline_loss, return_outputs=True)
    theirs = expected[2](*batch)
    assert loss.item() == pytest.approx(pipeline_loss(theirs, batch).item(), rel=1e-5)
    torch.testing.assert_close(outputs.logits, theirs.logits, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(model(*batch).logits, theirs.logits, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("is_evaluated_first", [False, True])
def test_outputs_of_a_training_step(is_evaluated_first):
    """The first training step decides whether outputs are kept, unless the engine does."""
    engine = Engine(plan=Plan("dp=2,pp=2", micro_batches=2), keep_outputs=is_evaluated_first)
    model, optimizer, _, dataloader = make()
    expected, reference, _, _ = make()
    model, optimizer = engine.initialize(model, optimizer)
    if is_evaluated_first:
        engine.execute_pipeline(next(iter(dataloader)), model.eval(), pipeline_loss)
        model.train()
    for step, batch in enumerate(dataloader):
        result = engine.execute_pipeline(batch, model, pipeline_loss, optimizer, return_outputs=step != 1)
        outputs = expected(*batch)
        loss = pipeline_loss(outputs, batch)
        loss.backward()
        if step == 1:
            torch.testing.assert_close(result, loss.detach())
        else:
            torch.testing.assert_close(result[0], loss.detach())
            torch.testing.assert_close(result[1].logits, outputs.logits, rtol=1e-4, atol=1e-4)
        for update in (optimizer, reference):
            update.step()
            update.zero_grad()


class Value(GPT2):
    def __init__(self):
        super().__init__(outputs=1)

    def forward(self, input_ids, attention_mask):
        return super().forward(input_ids, attention_mask).logits[:, :, 0]


def find_log_probs(logits, sequences):
    return torch.log_softmax(logits[:, :-1], 2).gather(2, sequences[:, 1:, None])[:, :, 0]


def actor_loss_fn(action_log_probs, old_log_probs, adv):
    ratio = (action_log_probs - old_log_probs).exp()
    return -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()


def critic_loss_fn(values, old_values, reward):
    clipped = old_values + (values - old_values).clamp(-0.2, 0.2)
    return 0.5 * torch.max((values - reward) ** 2, (clipped - reward) ** 2).mean()


def draw_experience(step):
    """Returns (sequences, mask, advantages, values, rewards)."""
    generator = torch.Generator().manual_seed(step)
    sequences = torch.randint(0, 48, (8, 8), generator=generator)
    return sequences, torch.ones_like(sequences), *(torch.randn(8, width, generator=generator) for width in (7, 8, 8))


def run_ppo(initialize, backward):
    """Trains an actor and a critic, with a frozen reference. The actor is called twice before its step. Returns (losses, models)."""
    actor, critic, reference = GPT2(), Value(), GPT2().eval()
    actor_optim, critic_optim = Adam(actor.parameters(), lr=1e-2, eps=1e-3), Adam(critic.parameters(), lr=1e-2, eps=1e-3)
    actor, critic, actor_optim, critic_optim, reference = initialize(actor, critic, actor_optim, critic_optim, reference)
    losses = []
    for step in range(20):
        sequences, mask, adv, old_values, reward = draw_experience(step)
        with torch.no_grad():
            old_log_probs = find_log_probs(reference(sequences, mask).logits, sequences)
        action_log_probs = find_log_probs(actor(sequences, mask).logits, sequences)
        shifted = sequences.roll(1, 0)
        entropy = torch.distributions.Categorical(logits=actor(shifted, mask).logits).entropy().mean()
        actor_loss = actor_loss_fn(action_log_probs, old_log_probs, adv) - 0.01 * entropy
        backward(actor_loss, actor_optim)
        actor_optim.step()
        actor_optim.zero_grad()

        critic_loss = critic_loss_fn(critic(sequences, mask), old_values, reward)
        backward(critic_loss, critic_optim)
        critic_optim.step()
        critic_optim.zero_grad()
        losses += [actor_loss.item(), critic_loss.item()]
    return losses, (actor, critic)


def test_several_models():
    """PPO as in the sample. The critic has another plan, so two engines are used at once."""
    first = Engine(parallelism_plugin=GeminiPlugin(stage=3, ranks=2))
    second = Engine(plan="tp=2")

    def initialize(actor, critic, actor_optim, critic_optim, reference):
        reference, actor_optim, actor = first.initialize(reference, actor_optim, actor)
        critic, critic_optim = second.initialize(critic, critic_optim)
        return actor, critic, actor_optim, critic_optim, reference

    expected, theirs = run_ppo(lambda *given: given, lambda loss, optimizer: loss.backward())
    losses, ours = run_ppo(initialize, first.backward)
    # The losses are differences of terms of size 1: PyTorch's own losses differ by 1.4e-7 from those in f64.
    assert losses == pytest.approx(expected, rel=1e-6, abs=3e-7)
    for found, reference in zip(ours, theirs):
        assert_equal(found, reference, 1e-4)


@pytest.fixture(scope="module")
def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    none = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}  # dropout
    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(vocab_size=96, n_positions=32, n_embd=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2, **none)).train()


def tokens(seed):
    return torch.randint(3, 96, (8, 16), generator=torch.Generator().manual_seed(seed))


def run_steps(model, optimizer, scheduler, backward, steps):
    losses = []
    for step in steps:
        loss = model(input_ids=tokens(step), labels=tokens(step)).loss
        backward(loss)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def run_pipeline(engine, model, optimizer, scheduler, steps):
    """The loop defines the criterion again in each step."""
    losses = []
    for step in steps:
        batches = iter([{"input_ids": tokens(step), "labels": tokens(step)}])
        losses.append(engine.execute_pipeline(batches, model, lambda outputs, inputs: outputs.loss, optimizer).item())
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    return losses


def make_gpt2(gpt2):
    model = copy.deepcopy(gpt2)
    optimizer = Adam(model.parameters(), lr=1e-2, eps=1e-3)
    return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)


@pytest.mark.part(2)
@pytest.mark.parametrize("style", ["torch", "huggingface"])
def test_checkpoints_and_generation(gpt2, tmp_path, style):
    """Training continues under another plan, before whose first call the files are loaded. PyTorch and Hugging Face read the files."""
    expected, update, decay = make_gpt2(gpt2)
    theirs = run_steps(expected, update, decay, torch.Tensor.backward, range(4))

    engine = Engine(parallelism_plugin=GeminiPlugin(stage=3, ranks=2))
    made = engine.initialize(*make_gpt2(gpt2))
    prompts = tokens(9)[:3, :5]
    before = made[0].eval().generate(prompts, max_new_tokens=4, pad_token_id=0)
    made[0].train()
    losses = run_steps(*made, lambda loss: engine.backward(loss, made[1]), range(2))
    size = {} if style == "torch" else {"max_file_size_gb": 2e-5}
    paths = [tmp_path / name for name in (("model.pt", "optimizer.pt", "scheduler.pt") if style == "torch" else ("gpt2",) * 3)]
    for value, path in zip(made, paths):
        engine.save(value, path, plan=style, **size)

    other = Engine(plan=Plan("pp=2", micro_batches=2))
    continued = other.initialize(*make_gpt2(gpt2))
    for value, path in zip(continued, paths):
        other.load(value, path, plan=style)
    losses += run_pipeline(other, *continued, range(2, 4))
    assert losses == pytest.approx(theirs, rel=1e-6)
    for value, path in zip(made, paths):  # into compiled ones
        engine.load(value, path, plan=style)
    assert run_steps(*made, lambda loss: engine.backward(loss, made[1]), range(2, 4)) == pytest.approx(theirs[2:], rel=1e-6)
    assert_equal(made[0], expected, 1e-4)

    assert torch.equal(before, gpt2.generate(prompts, max_new_tokens=4, pad_token_id=0, use_cache=False))
    after = expected.eval().generate(prompts, max_new_tokens=4, pad_token_id=0)
    for model in (made[0], continued[0]):
        assert torch.equal(model.eval().generate(prompts, max_new_tokens=4, pad_token_id=0), after)
    read_elsewhere(style, paths, gpt2, continued[0].config)


def read_elsewhere(style, paths, gpt2, config):
    """Reads the files with PyTorch and Hugging Face."""
    assert config.n_embd == 32
    if style == "torch":
        model = copy.deepcopy(gpt2)
        model.load_state_dict(torch.load(paths[0]))
        Adam(model.parameters()).load_state_dict(torch.load(paths[1]))
        return
    model = type(gpt2).from_pretrained(paths[0])
    assert model.lm_head.weight is model.transformer.wte.weight and not torch.equal(model.lm_head.weight, gpt2.lm_head.weight)
    names = {path.name for path in paths[0].iterdir()}
    assert {"config.json", "model.safetensors.index.json", "pytorch_optim.bin.index.json", "pytorch_optim_group.bin", "scheduler.pt"} <= names
    assert len([name for name in names if name.endswith(".safetensors")]) > 2 and "pytorch_optim-00002.bin" in names


def test_folders_of_other_models(tmp_path):
    """A model that is not of Hugging Face is written as safetensors files with an index."""
    engine = Engine()
    model, optimizer = engine.initialize(*make()[:2])
    engine.save(model, tmp_path, plan="huggingface", max_file_size_gb=1e-6)
    engine.save(optimizer, tmp_path, plan="huggingface")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with torch.no_grad():
        model.head.weight.zero_()
    engine.load(model, tmp_path, plan="huggingface")
    engine.load(optimizer, tmp_path, plan="huggingface")
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert (tmp_path / "model.safetensors.index.json").exists()
    with pytest.raises(parashard.InputError, match="the folder has no scheduler.pt"):
        engine.load(make()[2], tmp_path, plan="huggingface")


# ---- batches and orders of calls ---------------------------------------------------------------------------------------


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down = torch.nn.Linear(6, 12), torch.nn.Linear(12, 4)
        self.drop = torch.nn.Dropout(0.0)

    def forward(self, x):
        return self.down(self.drop(torch.relu(self.up(x))))


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def rows(seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(8, 6, generator=generator), torch.randint(0, 4, (8,), generator=generator)


def make_net(plan="dp=2", **options):
    """Returns (engine, model, optimizer) after `initialize`, and the original model."""
    net = Net()
    engine = Engine(plan=plan, **options)
    return engine, *engine.initialize(net, sgd(net)), copy.deepcopy(net)


@pytest.mark.parametrize("shape", [
    lambda x, y: ((x, y), cross_entropy),  # forward has one parameter, so y are labels
    lambda x, y: (((x,), y), cross_entropy),
    lambda x, y: (({"x": x}, {"first": y, "second": y}), lambda out, labels: sum(cross_entropy(out, each) for each in labels.values()) / 2),
    lambda x, y: ({"x": x, "y": y}, lambda out, batch: cross_entropy(out, batch["y"])),
    lambda x, y: (iter([(x, y)]), cross_entropy),
])  # fmt: skip
def test_structures_of_batches(shape):
    engine, model, optimizer, expected = make_net(Plan("dp=2", micro_batches=2))
    update = sgd(expected)
    for step in range(2):
        x, y = rows(step)
        batch, criterion = shape(x, y)
        loss = engine.execute_pipeline(batch, model, criterion, optimizer)
        theirs = cross_entropy(expected(x), y)
        theirs.backward()
        for each in (optimizer, update):
            each.step()
            each.zero_grad()
        assert loss.item() == pytest.approx(theirs.item(), rel=1e-6)
    assert engine.execute_pipeline(shape(x, y)[0], model, criterion, optimizer, return_loss=False) is None
    optimizer.zero_grad()
    model.eval()
    torch.testing.assert_close(model(x), expected(x), rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("error")
def test_evaluation_before_training():
    """The first call may evaluate. Gradients are accumulated in no_sync(), and the step counts of all schedulers arrive."""
    net = Net()
    optimizer = sgd(net)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=2)
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)], [2])
    expected = copy.deepcopy(net)
    update = sgd(expected)
    start = torch.optim.lr_scheduler.LinearLR(update, 0.1, total_iters=2)
    reference = torch.optim.lr_scheduler.SequentialLR(update, [start, torch.optim.lr_scheduler.ExponentialLR(update, 0.5)], [2])
    engine = Engine(plan=Plan("dp=2", zero=2), grad_clipping_value=0.1)
    scheduler, optimizer, model = engine.initialize(scheduler, optimizer, net)
    torch.testing.assert_close(model.eval()(rows(9)[0]), expected(rows(9)[0]))
    model.train()
    for step in range(5):
        for part in range(2):
            x, y = rows(10 * step + part)
            with engine.no_sync(model):
                engine.backward(cross_entropy(model(x), y), optimizer)
            cross_entropy(expected(x), y).backward()
        torch.nn.utils.clip_grad_norm_(expected.parameters(), 0.1)
        for each in (optimizer, scheduler, update, reference):
            each.step()
        optimizer.zero_grad(), update.zero_grad()
        assert optimizer.param_groups[0]["lr"] == update.param_groups[0]["lr"]
    assert_equal(model, expected, 1e-6)
    assert scheduler.get_last_lr() == reference.get_last_lr()


def test_a_pipeline_needs_a_criterion():
    for plan, message in (("pp=2", "a pipeline axis needs"), (Plan("dp=2", micro_batches=2), "micro-batches need")):
        _, model, _, _ = make_net(plan)
        with pytest.raises(parashard.Unsupported, match=f"{message} the loss in the graph: .*execute_pipeline"):
            model(rows(0)[0])


def test_original_parameters_are_freed():
    _, model, optimizer, _ = make_net()
    left = weakref.ref(model.up.weight)
    model(rows(0)[0])
    gc.collect()
    assert left() is None
    program = weakref.ref(model._held)
    del model, optimizer
    gc.collect()
    assert program() is None


def test_a_model_that_only_evaluates():
    """Flags of training in the plan have no effect, and no warning."""
    net = GPT2().eval()
    engine = Engine(plan=Plan("pp=2", micro_batches=2, schedule="gpipe", zero=1))
    (model,) = engine.initialize(net)
    batch = next(iter(make()[3]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss, outputs = engine.execute_pipeline(batch, model, pipeline_loss, return_outputs=True)
    torch.testing.assert_close(outputs.logits, net(*batch).logits)
    assert loss.item() == pytest.approx(pipeline_loss(net(*batch), batch).item(), rel=1e-6)
    with pytest.raises(parashard.InputError, match="GPT2 has no optimizer, so it only evaluates"):
        model.train()(*batch)


# ---- errors ------------------------------------------------------------------------------------------------------------


def train_in_pytorch(model):
    model.up.weight.sum().backward()


def pipeline(engine, model, optimizer, batch=None, criterion=cross_entropy, **options):
    return engine.execute_pipeline(rows(0) if batch is None else batch, model, criterion, optimizer, **options)


@pytest.mark.parametrize("use, error, message", [
    (lambda e, m, o: pipeline(e, m, o) and pipeline(e, m, o, return_outputs=True), "InputError", r"give Engine\(..., keep_outputs=True\)"),
    (lambda e, m, o: pipeline(e, m, None), "InputError", "the model is in training mode; give its optimizer"),
    (lambda e, m, o: pipeline(e, m, sgd(Net())), "InputError", "the optimizer is not that of the model"),
    (lambda e, m, o: pipeline(e, Net(), o), "InputError", "model is Net; give the model that initialize returned"),
    (lambda e, m, o: pipeline(e, m, o) and pipeline(e, m, o, criterion=lambda out, y: out.mean()), "InputError", "another criterion"),
    (lambda e, m, o: pipeline(e, m, o) and m(rows(0)[0]), "Unsupported", "call execute_pipeline, or model.eval"),
    (lambda e, m, o: pipeline(e, m, o) and pipeline(e, m, o, batch=({"x": rows(0)[0]}, {"y": rows(0)[1]})), "InputError", "the batch has the structure"),
    (lambda e, m, o: pipeline(e, m, o) and pipeline(e, m, o, batch=[v[:6] for v in rows(0)]), "InputError", "6 rows"),
    (lambda e, m, o: m(rows(0)[0]) is None or pipeline(e, m, o), "InputError", "compiled without a criterion"),
    (lambda e, m, o: m(rows(0)[0]) is None or m(rows(0)[0][:6]), "InputError", "6 rows"),
    (lambda e, m, o: m(3), "InputError", "argument x of Net.forward is int"),
    (lambda e, m, o: m(rows(0)[0], y=1), "InputError", "Net.forward: .*'y'"),
    (lambda e, m, o: pipeline(e, m, o, batch=torch.utils.data.DataLoader([], 8)), "InputError", "the data loader has no batch"),
    (lambda e, m, o: pipeline(e, m, o, criterion=torch.nn.Linear(4, 1)), "Unsupported", "the criterion has parameters"),
    (lambda e, m, o: pipeline(e, m, o, criterion=lambda out, y: out), "ExportFailed", "the criterion returns torch.float32 with 2 dims; expected"),
    (lambda e, m, o: train_in_pytorch(m) or o.step(), "Unsupported", "the gradients were computed by PyTorch"),
    (lambda e, m, o: train_in_pytorch(m) or m(rows(0)[0]), "Unsupported", "Net has gradients that PyTorch computed"),
    (lambda e, m, o: e.backward(m(rows(0)[0]).sum(), sgd(Net())), "InputError", "optimizer is SGD; give the optimizer that initialize"),
    (lambda e, m, o: e.backward(torch.zeros((), requires_grad=True), o), "InputError", "the loss does not depend on the model"),
    (lambda e, m, o: e.load(3, "x"), "InputError", "obj is int; give a model"),
    (lambda e, m, o: e.no_sync(Net()), "InputError", "model is Net"),
    (lambda e, m, o: e.save(m, "x", plan="zip"), "InputError", "plan is 'zip'; give \"torch\""),
    (lambda e, m, o: e.save(m, "x", max_file_size_gb=1), "InputError", "max_file_size_gb is for folders"),
    (lambda e, m, o: e.save(m, "x", plan="huggingface", max_file_size_gb=0), "InputError", "expected a positive number"),
    (lambda e, m, o: e.load(m, "x", plan="huggingface"), "InputError", "x: the folder has no model.safetensors"),
    (lambda e, m, o: e.initialize(m), "InputError", "was returned by initialize before"),
    (lambda e, m, o: m.generate(), "Unsupported", "call model.eval"),
    (lambda e, m, o: m.eval().generate(), "Unsupported", "Net has no generate"),
    (lambda e, m, o: m.half(), "Unsupported", "precision"),
    (lambda e, m, o: copy.deepcopy(m), "Unsupported", "cannot be copied"),
])  # fmt: skip
def test_bad_use(use, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    engine, model, optimizer, _ = make_net()
    with pytest.raises(getattr(parashard, error), match=message):
        use(engine, model, optimizer)


def two_models():
    first, second = Net(), Net()
    return first, second, torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)


def two_optimizers():
    net = Net()
    return net, torch.optim.SGD(net.up.parameters(), lr=0.1), torch.optim.SGD(net.down.parameters(), lr=0.1)


def alone():
    return torch.optim.lr_scheduler.StepLR(sgd(Net()), 2), Net()


@pytest.mark.parametrize("arguments, error, message", [
    (lambda: [Net(), 3], "InputError", "argument 1 of initialize is int; give models"),
    (lambda: [torch.nn.CrossEntropyLoss()], "InputError", "argument 0 of initialize, CrossEntropyLoss, has no parameters"),
    (lambda: [sgd(Net())], "InputError", "no model of initialize has the parameters of SGD"),
    (alone, "InputError", "the optimizer of StepLR is not among the arguments"),
    (two_models, "Unsupported", "SGD has parameters of 2 models"),
    (two_optimizers, "Unsupported", "Net has two optimizers"),
    (lambda: [net := Net(), torch.optim.RMSprop(net.parameters())], "Unsupported", "optimizer RMSprop is not supported"),
    (lambda: [torch.utils.data.DataLoader(Dataset(), 7)], "InputError", "the last batch of the data loader has 3 samples instead of 7"),
])  # fmt: skip
def test_bad_arguments_of_initialize(arguments, error, message):
    with pytest.raises(getattr(parashard, error), match=message):
        Engine().initialize(*arguments())


@pytest.mark.parametrize("options, error, message", [
    ({"precision": "fp16_apex"}, "Unsupported", "give one of fp32, bf16"),
    ({"precision": "bf16", "plan": Plan("dp=2", precision="fp16")}, "InputError", "precision is bf16, but the plan has fp16"),
    ({"grad_clipping_type": "value"}, "Unsupported", "use \"norm\""),
    ({"grad_clipping_value": -1.0}, "InputError", "expected a norm"),
    ({"device": "cuda:1"}, "Unsupported", "give \"cpu\" or \"cuda\""),
    ({"parallelism_plugin": "gemini"}, "InputError", "parallelism_plugin is str"),
    ({"plan": "dp=2", "parallelism_plugin": TorchDDPPlugin(ranks=2)}, "InputError", "both parallelism_plugin and plan"),
    ({"parallelism_plugin": LowLevelZeroPlugin(ranks=2, cpu_offload=True)}, "Unsupported", "offloading needs a GPU"),
    ({"parallelism_plugin": LowLevelZeroPlugin(ranks=2, max_norm=1.0), "grad_clipping_value": 2.0}, "InputError", "max_norm of the plugin is 1.0"),
])  # fmt: skip
def test_bad_engines(options, error, message):
    with pytest.raises(getattr(parashard, error), match=message):
        Engine(**options)


def test_fp16_needs_a_loss_in_the_graph():
    _, model, _, _ = make_net(precision="fp16")
    with pytest.raises(parashard.Unsupported, match="fp16 scales the loss, .* use precision=\"bf16\""):
        model(rows(0)[0])
    engine, model, optimizer, expected = make_net(precision="fp16")
    loss = pipeline(engine, model, optimizer)
    assert loss.item() == pytest.approx(cross_entropy(expected(rows(0)[0]), rows(0)[1]).item(), rel=1e-2)


# ---- plugins -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plugin, plan", [
    (TorchDDPPlugin(ranks=4), Plan("dp=4")),
    (LowLevelZeroPlugin(ranks=2, stage=2, precision="bf16"), Plan("dp=2", zero=2, precision="bf16")),
    (LowLevelZeroPlugin(ranks=2, communication_dtype=torch.bfloat16), Plan("dp=2", zero=1, gradient_reduction="bf16")),
    (GeminiPlugin(ranks=4), Plan("dp=4", zero=3)),
    (GeminiPlugin(ranks=4, tp_size=2, shard_param_frac=0.0, offload_optim_frac=1.0), Plan("dp=2,tp=2", zero=2, offload="optimizer")),
    (HybridParallelPlugin(ranks=8, tp_size=2, pp_size=2, microbatch_size=1, zero_stage=1), Plan("dp=2,pp=2,tp=2", batch=2, zero=1)),
    (HybridParallelPlugin(ranks=8, tp_size=2, pp_size=2, num_microbatches=4, pp_style="zbv", dp_outside=False),
     Plan("pp=2,dp=2,tp=2", micro_batches=4, schedule="zb-v")),
    (HybridParallelPlugin(ranks=4, tp_size=4, pp_size=1, enable_sequence_parallelism=True), Plan("tp=4", sharding_policy="megatron+sp")),
])  # fmt: skip
def test_plans_of_plugins(plugin, plan):
    assert plugin.plan == plan and list(plugin.plan.mesh) == list(plan.mesh)


@pytest.mark.parametrize("make_plugin, error, message", [
    (lambda: TorchDDPPlugin(), "InputError", "give ranks=N, the world size"),
    (lambda: HybridParallelPlugin(tp_size=2, ranks=4), "InputError", "pp_size is missing"),
    (lambda: HybridParallelPlugin(tp_size=3, pp_size=2, ranks=8), "InputError", "8 ranks are not divisible by tp=3 x pp=2"),
    (lambda: HybridParallelPlugin(tp_size=0, pp_size=2, ranks=8), "InputError", "tp_size=0: expected a number of ranks"),
    (lambda: HybridParallelPlugin(tp_size=1, pp_size=2, ranks=2), "InputError", "a pipeline needs num_microbatches"),
    (lambda: HybridParallelPlugin(tp_size=2, pp_size=1, num_microbatches=2, ranks=2), "InputError", "--micro-batches needs a pipeline"),
    (lambda: HybridParallelPlugin(tp_size=2, pp_size=1, zero_stage=3, ranks=2), "Unsupported", "zero_stage=3 is not supported: give 0, 1 or 2"),
    (lambda: GeminiPlugin(stage=3, shard_param_frac=0.0, ranks=2), "InputError", "contradicts another argument"),
    (lambda: GeminiPlugin(placement_policy="auto", ranks=2), "Unsupported", "the plan places tensors before the run"),
    (lambda: GeminiPlugin(search_range_m=32, ranks=2), "Unsupported", "without chunks"),
    (lambda: GeminiPlugin(nonsense=1, ranks=2), "InputError", "GeminiPlugin has no argument nonsense; it has ranks, stage"),
])  # fmt: skip
def test_bad_plugins(make_plugin, error, message):
    with pytest.raises(getattr(parashard, error), match=message):
        make_plugin()


def test_micro_batches_of_a_size():
    """A plan with the size of a micro-batch has as many of them as the batch has samples."""
    engine, model, optimizer, expected = make_net(Plan("dp=2", batch=4))
    assert pipeline(engine, model, optimizer).item() == pytest.approx(cross_entropy(expected(rows(0)[0]), rows(0)[1]).item(), rel=1e-6)
    engine, model, optimizer, _ = make_net(Plan("dp=2", batch=3))
    with pytest.raises(parashard.InputError, match="8 samples, which micro-batches of 3 samples do not divide"):
        pipeline(engine, model, optimizer)


PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/engine-plugins.md"
ABOUT = """# Plugins of Engine

`build/venv/bin/python test/python/test_engine.py` writes this page from the table in
`python-bindings/parashard/plugins.py`. [python.md](python.md#engine) describes `Engine`. A flag is
one of [ps-compile](ps-compile-flags.md). If an argument has no effect here, or an effect that the
plan does not have, giving it raises `parashard.Unsupported`. All plugins also need `ranks=N`, which
is the world size in ColossalAI. Without `precision`, the precision is that of the engine.
"""


def describe(rule):
    """Returns what an argument does, or why it is refused."""
    if isinstance(rule, Axis):
        return f"the size of the mesh axis `{rule.name}`"
    if isinstance(rule, DataFirst):
        return "`True`: the data axis is the first axis of the mesh; `False`: it follows the pipeline axis"
    if isinstance(rule, Only):
        return f"only `{rule.value!r}`: {rule.reason}"
    if isinstance(rule, Refused):
        return f"not supported: {rule.reason}"
    if not rule.values:
        return f"`--{rule.name}`"
    effects = [(f"`{key}`", f"`--{rule.name} {value}`" if value is not None else "no flag") for key, value in rule.values.items()]
    return "; ".join(f"{key}: {effect}" for key, effect in effects)


def make_page():
    lines = [ABOUT]
    for plugin, arguments in PLUGINS.items():
        lines += [f"## {plugin}", "", "| argument | effect |", "|---|---|"]
        for effect, names in itertools.groupby(arguments, lambda name: describe(arguments[name])):
            lines.append(f"| {', '.join(f'`{name}`' for name in names)} | {effect} |")
        lines.append("")
    return "\n".join(lines)


def test_the_page_of_plugins():
    assert PAGE.read_text() == make_page()


if __name__ == "__main__":
    PAGE.write_text(make_page())
