"""The step drive of the Python package: the loss is in the graph, the loop is PyTorch's, and any plan equals PyTorch."""

import copy
import sys
from unittest import mock

import models
import pytest
import replay
import torch
from conftest import package_folder
from lanes import full

sys.path.insert(0, str(package_folder()))
import parashard
from parashard import Plan
from parashard.loading import make_loader

pytestmark = pytest.mark.usefixtures("one_thread", "shared_programs")
ROWS = 8


def sgd(module):
    return torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)


def adamw(module):
    """The large eps keeps rounding errors of tiny gradients small."""
    return torch.optim.AdamW(module.parameters(), lr=1e-2, eps=1e-3, weight_decay=0.1)


def step_lr(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)


def one_cycle(optimizer):
    """Also changes the momentum, or the first beta."""
    return torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.05, total_steps=4)


def draw(seed, ignored=0.0):
    """Draws a batch. A fraction of the labels is ignored, another number in each sample."""
    generator = torch.Generator().manual_seed(seed)
    tokens, labels = (torch.randint(0, 96, (ROWS, 16), generator=generator) for _ in range(2))
    return {"input_ids": tokens, "labels": labels.masked_fill(torch.rand((ROWS, 16), generator=generator) < ignored, -100)}


def train(model, optimizer, scheduler, parts):
    """Trains with accumulation, clipping and a scheduler. Returns the losses."""
    losses = []
    for step in range(4):
        optimizer.zero_grad()
        for part in range(parts):
            loss, _ = model(**draw(10 * step + part, 0.3))
            (loss / parts).backward()
            losses.append(loss.item())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        scheduler.step()
    return losses


@pytest.mark.parametrize("plan, optimizer_fn, scheduler_fn, parts", [
    (Plan("dp=2,tp=2", micro_batches=2, zero=3), sgd, step_lr, 2),
    (Plan("pp=2", micro_batches=4), adamw, one_cycle, 3),
    (Plan("dp=2,pp=2", micro_batches=2, schedule="zb-h1", zero=1), sgd, one_cycle, 1),
    (Plan("dp=2", recompute="full"), adamw, step_lr, 1),
])  # fmt: skip
def test_the_loop_of_pytorch(plan, optimizer_fn, scheduler_fn, parts):
    """The weights of GPT's embedding and head are tied, so in a pipeline, two stages add to their gradient."""
    expected = models.gpt().module.train()
    model, optimizer, scheduler = parashard.parallelize(plan, expected, optimizer_fn, scheduler_fn, example=draw(0))
    reference = optimizer_fn(expected)
    found = train(model, optimizer, scheduler, parts)
    assert found == pytest.approx(train(expected, reference, scheduler_fn(reference), parts), rel=1e-5)
    for name, value in expected.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name].clone(), value, rtol=1e-4, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}")
    batch = draw(99, 0.3)
    with torch.no_grad():
        torch.testing.assert_close(model.eval()(**batch), expected.eval()(**batch), rtol=1e-4, atol=1e-4)


class Net(torch.nn.Module):
    """A model that returns no loss. `p`: dropout."""

    def __init__(self, p=0.0):
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down = torch.nn.Linear(12, 24), torch.nn.Linear(24, 10)
        self.drop = torch.nn.Dropout(p)

    def forward(self, x):
        return self.down(self.drop(torch.relu(self.up(x))))


def rows(seed):
    generator = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(8, 12, generator=generator), "labels": torch.randint(0, 10, (8,), generator=generator)}


def make(plan, optimizer_fn=sgd, module=None, **options):
    criterion = torch.nn.functional.cross_entropy
    return parashard.parallelize(plan, module or Net(), optimizer_fn, example=rows(0), criterion=criterion, **options)


def test_orders_of_the_loop():
    """Gradients may be set to None after forward, and a forward without backward does not count. Both are as in PyTorch."""
    net = Net()
    model, optimizer = make(Plan("dp=2", micro_batches=2), module=net)
    reference = sgd(net)

    def criterion(x, labels):
        return torch.nn.functional.cross_entropy(net(x), labels)

    for step in range(3):
        for call, update in ((lambda **batch: model(**batch)[0], optimizer), (criterion, reference)):
            loss = call(**rows(step))
            update.zero_grad()
            loss.backward()
            call(**rows(50 + step))  # overwrites the gradients of the program
            (3 * call(**rows(70 + step))).backward()
            with torch.no_grad():
                call(**rows(90 + step))
            update.step()
    for name, value in net.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name].clone(), value)
    assert make(Plan("dp=2", micro_batches=2), module=net)[0].up.weight.grad is None


def test_gradients_are_those_of_pytorch():
    net = Net()
    model, _ = make(Plan("tp=2", micro_batches=2), module=net)
    batch = rows(3)
    model(**batch)[0].backward()
    torch.nn.functional.cross_entropy(net(batch["x"]), batch["labels"]).backward()
    for name, parameter in net.named_parameters():
        torch.testing.assert_close(model.get_parameter(name).grad.clone(), parameter.grad)


def test_each_forward_draws_dropout():
    model, optimizer = make("dp=2", module=Net(0.5))
    with torch.no_grad():
        losses = [model(**rows(0))[0].item() for _ in range(3)]
    assert len(set(losses)) == 3
    model(**rows(0))[0].backward()
    optimizer.step()


def test_drives():
    """The first output decides which drive is used, unless `drive` does."""
    model, _ = parashard.parallelize("dp=2", models.gpt().module, sgd, example=draw(0), drive="autograd")
    loss, logits = model(**draw(0))
    (loss + 0.1 * logits.square().mean()).backward()
    assert "backward" in model._program.names("entries")
    with pytest.raises(parashard.InputError, match="needs a model that returns its loss"):
        parashard.parallelize("dp=2", Net(), sgd, example=rows(0)["x"], drive="step")
    with pytest.raises(parashard.InputError, match="expected \"step\", \"autograd\" or None"):
        parashard.parallelize("dp=2", Net(), sgd, example=rows(0)["x"], drive="steps")
    for plan, error, message in (
        (Plan("dp=2", micro_batches=3), "InputError", "8 samples, which is not divisible by 3 micro-batches"),
        (Plan("dp=2", micro_batches=2, batch=2), "InputError", "give an example of 4 samples"),
        (Plan("dp=2", global_batch=8), "Unsupported", "micro_batches=N"),
    ):
        with pytest.raises(getattr(parashard, error), match=message):
            make(plan)


class Several(torch.nn.Module):
    """Returns outputs of two stages: one has its samples in dim 1, one is an integer, one a scalar."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.blocks = torch.nn.ModuleList(torch.nn.Linear(12, 12) for _ in range(4))
        self.down = torch.nn.Linear(12, 10)

    def forward(self, x, labels):
        hidden = torch.tanh(self.blocks[1](torch.tanh(self.blocks[0](x))))
        logits = self.down(torch.tanh(self.blocks[3](torch.tanh(self.blocks[2](hidden)))))
        loss = torch.nn.functional.cross_entropy(logits, labels)
        return {"loss": loss, "logits": logits, "hidden": hidden.T, "classes": logits.argmax(1), "mean": logits.mean()}


@pytest.mark.parametrize("plan", [
    Plan("dp=1"),
    Plan("dp=2"),
    Plan("dp=2", micro_batches=2, zero=3),
    Plan("pp=2", micro_batches=4),
    Plan("dp=2,pp=2", micro_batches=2, schedule="gpipe", recompute="full"),
    Plan("tp=2", micro_batches=2),
], ids=str)  # fmt: skip
def test_kept_outputs(plan):
    """The outputs of a training step are those of PyTorch in training mode, with the samples of all micro-batches in order."""
    net = Several()
    model, optimizer = parashard.parallelize(plan, net, sgd, example=rows(0), keep_outputs="all")
    reference = sgd(net)
    for step in range(2):
        found, expected = model(**rows(step)), net(**rows(step))
        for name in ("loss", "logits", "hidden", "classes"):
            torch.testing.assert_close(found[name], expected[name], rtol=1e-5, atol=1e-5)
        for outputs, update in ((found, optimizer), (expected, reference)):
            outputs["loss"].backward()
            update.step()
            update.zero_grad()
        torch.testing.assert_close(found["logits"], expected["logits"], rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(model(**rows(5))["hidden"], net(**rows(5))["hidden"], rtol=1e-5, atol=1e-5)
    with pytest.raises(parashard.Unsupported, match="output mean is not available in training mode"):
        found["mean"].item()
    outputs = model(**rows(0))
    with pytest.raises(parashard.Unsupported, match="backward of output logits: a training step has the gradients of its loss alone"):
        (outputs["loss"] + outputs["logits"].mean()).backward()


def test_kept_outputs_of_a_criterion():
    """Outputs are kept by name or number. The order of the labels does not matter."""
    net = Net()
    for kept in (["1"], "all"):
        model, _ = make(Plan("dp=2", micro_batches=2), module=net, keep_outputs=kept)
        torch.testing.assert_close(model(**rows(0))[1], net(rows(0)["x"]))


@pytest.mark.parametrize("kept, drive, error, message", [
    (["logit"], None, "CompileError", "--keep-outputs logit: no such output; outputs are 0 \"loss\""),
    (["mean"], None, "CompileError", "--keep-outputs mean: the output .* has no batch dim"),
    (["loss"], None, "CompileError", "the output is the loss, which every step returns"),
    (["logits"], "autograd", "InputError", "keep_outputs needs the loss in the graph"),
])  # fmt: skip
def test_outputs_that_cannot_be_kept(kept, drive, error, message):
    with pytest.raises(getattr(parashard, error), match=message):
        parashard.parallelize("dp=2", Several(), sgd, example=rows(0), keep_outputs=kept, drive=drive)


def two_forwards(model, optimizer):
    (model(**rows(0))[0] + model(**rows(1))[0]).backward()


def backward_twice(model, optimizer):
    loss = model(**rows(0))[0]
    loss.backward(retain_graph=True)
    loss.backward()


def no_zero_grad(model, optimizer):
    for step in range(2):
        model(**rows(step))[0].backward()
        optimizer.step()


def read_after_step(model, optimizer):
    model(**rows(0))[0].backward()
    optimizer.step()
    model.up.weight.grad.norm()


def evaluate_before_step(model, optimizer):
    model(**rows(0))[0].backward()
    model.eval()(**rows(0))


@pytest.mark.parametrize("use, message", [
    (two_forwards, "a later call of the model overwrote the gradients"),
    (backward_twice, "retain_graph"),
    (no_zero_grad, "call optimizer.zero_grad"),
    (read_after_step, "the gradients were used by optimizer.step"),
    (evaluate_before_step, "evaluation would overwrite the gradients"),
    (lambda m, o: m(**rows(0))[1].sum(), "returns only its loss and the outputs of keep_outputs"),
    (lambda m, o: m.zero_grad(set_to_none=False) or m(**rows(0))[0].backward() or o.zero_grad(False) or o.step(), "needs gradients of this step"),
])  # fmt: skip
def test_bad_use(use, message):
    model, optimizer = make("dp=2")
    with pytest.raises(parashard.Unsupported, match=message):
        use(model, optimizer)


def test_a_step_without_backward_changes_nothing():
    model, optimizer = make("dp=2")
    before = model.up.weight.clone()
    model(**rows(0))
    optimizer.step()
    assert torch.equal(model.up.weight.clone(), before)


def test_a_generated_plan(tmp_path):
    """ps-plan chooses the plan; a constraint that no plan satisfies is an error with a command that can be repeated."""
    net = models.gpt().module.train()
    cluster = "cpu-mpi"
    plan = parashard.generate_plan({"mesh": "pp=2", "zero": [0, 1]}, net, example=draw(0), ranks=4, cluster=cluster, optimizer_fn=sgd)
    assert plan.ranks == 4 and plan.mesh["pp"] == 2 and plan["micro_batches"] * plan["batch"] == ROWS
    assert plan["pipeline_parallel.split_points"] == ["blocks.1"]
    plan.report(tmp_path / "plan.html")
    plan.timeline(tmp_path / "plan.svg")
    timeline = (tmp_path / "plan.svg").read_text()
    assert "blocks.1" in (tmp_path / "plan.html").read_text() and "</svg>" in timeline
    assert "<td" in plan._repr_html_() and "blocks.1" in plan._repr_html_() and timeline in plan._repr_html_()
    assert "blocks.0.attention.qkv" in plan.explain() and "bubble" in plan.explain()
    model, optimizer = parashard.parallelize(plan, net, sgd, example=draw(0))
    loss = model(**draw(1))[0]
    loss.backward()
    optimizer.step()
    assert loss.item() == pytest.approx(net(**draw(1))[0].item(), rel=1e-5)
    given = {"mesh": "tp=2", "tensor_parallel.sharding_policy": "megatron"}
    plan = parashard.generate_plan(given, net, example=draw(0), ranks=2, cluster=cluster)
    assert plan["tensor_parallel.sharding_plan"]["blocks.0.attention.qkv.weight"] == [torch.distributed.tensor.Shard(0)]
    with pytest.raises(parashard.InputError, match="mesh tp=2 has no pipeline axis"):
        plan.timeline(tmp_path / "plan.svg")
    assert "blocks.0.attention.qkv.weight</td>" in plan._repr_html_() and "all_reduce" in plan.explain()
    assert "tensor_parallel.sharding_plan : {" in str(plan) and "Shard(dim=0)" in str(plan) and "predicted: " in str(plan)
    with pytest.raises(parashard.CompileError, match="pp=3") as raised:
        parashard.generate_plan({"mesh": "pp=3"}, net, example=draw(0), ranks=4, cluster=cluster)
    assert "ps-plan" in raised.value.command
    with pytest.raises(parashard.InputError, match="ranks=N"):
        parashard.generate_plan({}, net, example=draw(0))


def test_a_plan_without_a_model(tmp_path):
    plan = Plan("dp=2,tp=2", zero=1)
    assert plan.command() == "ps-compile model.pt2 -o model --mesh dp=2,tp=2 --zero 1"
    assert "<td" in plan._repr_html_() and "dp=2,tp=2" in plan._repr_html_()
    for write in (plan.explain, lambda: plan.report(tmp_path / "plan.html"), lambda: plan.timeline(tmp_path / "plan.svg")):
        with pytest.raises(parashard.InputError, match="not known before the plan is compiled for a model; use generate_plan"):
            write()
    assert not list(tmp_path.iterdir())


class Patches(torch.nn.Module):
    """Its last backward is that of `embed`: the collectives of other gradients start earlier. An early stage makes an output."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = torch.nn.Linear(12, 32), torch.nn.Linear(32, 5)
        self.blocks = torch.nn.ModuleList(models.Block(32, 4, 0.0) for _ in range(2))

    def forward(self, x, labels, scale=None):
        first = h = self.embed(x)
        for block in self.blocks:
            h = block(h)
        logits = self.head(h.mean(1))
        return torch.nn.functional.cross_entropy(logits if scale is None else logits * scale, labels), first, logits


def draw_patches():
    generator = torch.Generator().manual_seed(0)
    return {"x": torch.randn(8, 8, 12, generator=generator), "labels": torch.randint(0, 5, (8,), generator=generator)}


@pytest.mark.part(3)
@pytest.mark.parametrize("mesh, flags", [
    ("dp=2,pp=2", {}), ("dp=2,pp=2", {"zero": 1, "micro_batches": 2}), ("tp=2", {"sharding_policy": "megatron+sp"}),
    ("dp=2,tp=2,pp=2", {"sharding_policy": "megatron+sp"}), ("dp=2", {"zero": 3}), ("dp=2,pp=2", {"target": "cuda:replay"}),
])  # fmt: skip
def test_changed_gradients_are_used(monkeypatch, mesh, flags):
    """Accumulated and clipped gradients, with collectives that start beside backward. Outputs of evaluation are in the model's order."""
    for name, value in replay.environment().items() if "target" in flags else ():
        monkeypatch.setenv(name, value)  # the fake GPU also proves the order of the collectives and the host's writes
    torch.manual_seed(0)
    reference, batch = Patches(), draw_patches()
    model, optimizer = parashard.parallelize(Plan(mesh, **flags), copy.deepcopy(reference), sgd, example=batch)
    theirs = sgd(reference)
    for module, update in ((reference, theirs), (model, optimizer)):
        for _ in range(2):
            update.zero_grad()
            for _ in range(2):
                (module(**batch)[0] / 2).backward()
            torch.nn.utils.clip_grad_norm_(module.parameters(), 0.1)
            update.step()
    found = model.state_dict()
    for name, value in reference.state_dict().items():
        torch.testing.assert_close(found[name].clone(), value, rtol=1e-5, atol=1e-6, msg=name)
    optimizer.zero_grad()
    for ours, expected in zip(model.eval()(**batch), reference.eval()(**batch), strict=True):
        torch.testing.assert_close(ours, expected.detach(), rtol=1e-5, atol=1e-6)


def test_what_a_compiled_model_does_not_do():
    """Nothing is ignored: arguments that are not in the example, replaced parameters, autocast, hooks, copies of the optimizer."""
    batch = draw_patches()
    model, optimizer = parashard.parallelize("dp=1", Patches(), sgd, example=batch)
    assert "available in training mode" in repr(model(**batch)[1]), "printing an output without values is not an error"
    with pytest.raises(parashard.InputError, match="argument scale of Patches.forward is not in the example"):
        model(**batch, scale=torch.ones(1))
    with pytest.raises(parashard.Unsupported, match="a parameter of embed was replaced"):
        torch.func.functional_call(model, {"embed.weight": torch.zeros(32, 12)}, kwargs=batch)
    with torch.autocast("cpu"), pytest.raises(parashard.Unsupported, match="precision"):
        model(**batch)
    with pytest.raises(parashard.Unsupported, match="hooks on parameters"):
        next(model.parameters()).register_post_accumulate_grad_hook(print)
    with pytest.raises(parashard.Unsupported, match="optimizer of a compiled model cannot be copied"):
        copy.deepcopy(optimizer)
    with pytest.raises(parashard.InputError, match="compiled already"):
        parashard.parallelize("dp=1", model, sgd, example=batch)
    with pytest.raises(parashard.InputError, match="give a function, such as lambda model: torch.optim.SGD"):
        parashard.parallelize("dp=1", Patches(), torch.optim.SGD(Patches().parameters()), example=batch)
    with pytest.raises(parashard.InputError, match="37 samples, fewer than a batch of 64"):
        parashard.parallelize("dp=1", Patches(), sgd, dataset=Tokens(), batch_size=64)
    assert model(**batch)[0].item() > 0, "the model works after the errors"


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 37

    def __getitem__(self, index):
        return {name: value[index % ROWS] for name, value in draw(index).items()}


def run_epoch(model, optimizer, scheduler, loader):
    losses = []
    for batch in loader:
        optimizer.zero_grad()
        loss = model(**batch)[0]
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    scheduler.step()
    return losses


def test_a_checkpoint_continues_under_another_plan(tmp_path):
    """Training continues as an unbroken run of PyTorch does, on another mesh. A file that is not a checkpoint changes nothing."""
    net = models.gpt().module.train()
    made = parashard.parallelize(Plan("dp=2,pp=2", micro_batches=2), net, adamw, step_lr, Tokens(), batch_size=ROWS)
    reference = adamw(net)
    scheduler = step_lr(reference)
    order = torch.utils.data.DataLoader(Tokens(), ROWS, shuffle=True, drop_last=True, generator=torch.Generator().manual_seed(0))
    found, expected = run_epoch(*made), run_epoch(net, reference, scheduler, order)
    names = ("model", "optimizer", "lr_scheduler")
    values = {"plan": Plan("dp=2,pp=2", micro_batches=2), "epoch": 1, "note": "warm"}
    parashard.save(tmp_path / "state", {**values, **dict(zip(names, made))})
    other = parashard.parallelize(Plan("dp=4", zero=3), models.gpt().module.train(), adamw, step_lr, example=draw(0))
    assert parashard.load(tmp_path / "state", dict(zip(names, other))) == values
    found += run_epoch(*other, made[3])
    expected += run_epoch(net, reference, scheduler, order)
    assert len(found) == 8 and found == pytest.approx(expected, rel=1e-5)
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    with pytest.raises(parashard.InputError, match="the file has no scheduler; it has plan, epoch, note, model, optimizer, lr_scheduler"):
        parashard.load(tmp_path / "state", {"scheduler": other[2]})
    (tmp_path / "state").write_bytes((tmp_path / "state").read_bytes()[:100])
    with pytest.raises(parashard.InputError, match="not a checkpoint"):
        parashard.load(tmp_path / "state", {"model": other[0]})
    with pytest.raises(parashard.InputError, match="count is list, which has no state_dict"):
        parashard.save(tmp_path / "state", {"count": [3]})


@pytest.mark.parametrize("workers", [0, 2])
def test_the_order_of_data_continues_in_mid_epoch(workers):
    """The order is that of PyTorch, also if workers have loaded further batches when the state is made."""
    data = list(range(20))
    order = torch.utils.data.DataLoader(data, 3, shuffle=True, drop_last=True, generator=torch.Generator().manual_seed(5))
    expected = [batch.tolist() for _ in range(3) for batch in order]
    options = {"num_workers": workers}
    loader = make_loader(data, 3, 5, options)
    found = [batch.tolist() for batch in loader]
    for batch in loader:
        found.append(batch.tolist())
        if len(found) == 8:
            state = loader.state_dict()
            break
    loader = make_loader(data, 3, 0, options)
    loader.load_state_dict(state)
    found += [batch.tolist() for _ in range(2) for batch in loader]
    assert found == expected and len(loader) == 6
    with pytest.raises(parashard.InputError, match="loader_options has shuffle"):
        make_loader(data, 3, 5, {"shuffle": False})


class Padded(torch.utils.data.Dataset):
    """Padded sequences for a causal language model."""

    def __len__(self):
        return 4 * ROWS

    def __getitem__(self, index):
        tokens = draw(index)["input_ids"][0].clamp(min=3)
        mask = (torch.arange(16) < 6 + index % 11).long()
        return {"input_ids": tokens * mask, "attention_mask": mask, "labels": tokens.masked_fill(mask == 0, -100)}


def test_the_trainer_of_hugging_face(tmp_path):
    """Trainer runs a compiled model as it runs the original: padded batches, clipping, its scheduler, and accumulation."""
    from transformers import Trainer, TrainingArguments

    expected = make_language_model("llama").train()
    expected.accepts_loss_kwargs = False
    example = torch.utils.data.default_collate([Padded()[index] for index in range(ROWS)])
    model, optimizer = parashard.parallelize("dp=2,tp=2", expected, adamw, example=example)
    losses = []
    for module, update in ((model, optimizer), (expected, adamw(expected))):
        arguments = TrainingArguments(
            tmp_path, use_cpu=True, per_device_train_batch_size=ROWS, dataloader_drop_last=True, max_steps=4, gradient_accumulation_steps=2,
            lr_scheduler_type="cosine", warmup_steps=1, logging_steps=1, report_to=[], save_strategy="no", disable_tqdm=True,
        )  # fmt: skip
        trainer = Trainer(module, arguments, train_dataset=Padded(), optimizers=(update, None))
        trainer.train()
        losses.append([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
    assert len(losses[0]) == 4 and losses[0] == losses[1]  # rounded to four digits
    for (name, found), reference in zip(model.named_parameters(), expected.parameters()):
        torch.testing.assert_close(found.clone(), reference, rtol=1e-4, atol=1e-5, msg=name)
    with pytest.raises(parashard.Unsupported, match="keeps the devices"):
        model.to(torch.bfloat16)


def test_missing_shapes():
    for options, message in (({}, "give example=batch"), ({"dataset": Tokens()}, "give batch_size=N")):
        with pytest.raises(parashard.InputError, match=message):
            parashard.parallelize("dp=2", models.gpt().module, sgd, **options)


def make_language_model(kind):
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    if kind == "gpt2":
        none = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}  # dropout
        return GPT2LMHeadModel(GPT2Config(vocab_size=96, n_positions=32, n_embd=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2, **none))
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=96, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=64, bos_token_id=1, eos_token_id=2,
    ))  # fmt: skip


@pytest.mark.parametrize("kind, plan", [("gpt2", "dp=2,tp=2"), full("llama", "dp=1"), full("llama", Plan("pp=2", micro_batches=2))])
def test_generation_with_a_cache(kind, plan):
    """With a KV cache, the tokens equal those of Hugging Face, also for padded prompts and after a step of training."""
    expected = make_language_model(kind).train()
    model, optimizer = parashard.parallelize(plan, expected, sgd, example=draw(0), generation={"batch_size": 4, "max_length": 20})
    reference = sgd(expected)
    prompts, short = draw(5)["input_ids"][:3, :5], torch.tensor([[0, 1, 1, 1, 1], [1, 1, 1, 1, 1], [0, 0, 1, 1, 1]])
    common = {"max_new_tokens": 12, "pad_token_id": 0}
    for step in range(2):
        model.eval(), expected.eval()
        entries = []
        program, call = model._program, model._program.call
        with mock.patch.object(model, "_program", wraps=program) as spy:
            spy.call.side_effect = lambda entry, *arguments: (entries.append(entry), call(entry, *arguments))
            for options in ({}, {"attention_mask": short}, {"do_sample": True, "top_k": 20}):
                tokens = []
                for module in (model, expected):
                    torch.manual_seed(7)
                    tokens.append(module.generate(prompts, use_cache=True, **common, **options))
                assert torch.equal(*tokens), (step, options)
        assert entries.count("prefill") == 3 and entries.count("decode") > 25, entries
        beams = [module.generate(prompts[:2], num_beams=2, **common) for module in (model, expected)]
        assert torch.equal(*beams)
        for module, update in ((model.train(), optimizer), (expected.train(), reference)):
            module(**draw(0)).loss.backward()
            update.step()
            update.zero_grad()
    model.eval()
    with pytest.raises(parashard.InputError, match="batch_size of 4 and a max_length of 20"):
        model.generate(prompts, max_new_tokens=30, eos_token_id=-1, pad_token_id=0)
    with pytest.raises(parashard.Unsupported, match="assistant_model is not supported with a KV cache"):
        model.generate(prompts, assistant_model=expected)
    with pytest.raises(parashard.InputError, match="expected {\"batch_size\": B, \"max_length\": L}"):
        parashard.parallelize("dp=1", expected, sgd, example=draw(0), generation=[4, 20])


@pytest.mark.parametrize("kind, plan, drive", [("gpt2", "dp=2,tp=2", None), ("llama", Plan("pp=2", micro_batches=2), None), ("llama", "tp=2", "autograd")])
def test_generation(kind, plan, drive):
    """Greedy, sampled and beam searches equal those of Hugging Face token for token, also after a step of training."""
    expected = make_language_model(kind).train()
    model, optimizer = parashard.parallelize(plan, expected, sgd, example=draw(0), drive=drive)
    reference = sgd(expected)
    for module, update in ((model, optimizer), (expected, reference)):
        with module.no_sync() if module is model else torch.enable_grad():
            module(**draw(0)).loss.backward()
        update.step()
        update.zero_grad()
    model.eval(), expected.eval()
    prompts = draw(5)["input_ids"][:3, :5]
    for options in ({}, {"do_sample": True, "top_k": 20}, {"num_beams": 2}):
        tokens = []
        for module in (model, expected):
            torch.manual_seed(7)
            tokens.append(module.generate(prompts, max_new_tokens=8, pad_token_id=0, **options))
        assert torch.equal(*tokens), options
    with pytest.raises(parashard.InputError, match="compiled for 16"):
        model.generate(prompts, max_new_tokens=20, pad_token_id=0, eos_token_id=-1)
    with pytest.raises(parashard.Unsupported, match="without a KV cache; pass generation="):
        model.generate(prompts, use_cache=True)
    with pytest.raises(parashard.Unsupported, match="padded prompts"):
        model.generate(prompts, attention_mask=torch.tensor([[0, 1, 1, 1, 1]] * 3), pad_token_id=0)
    with pytest.raises(parashard.Unsupported, match="call model.eval"):
        model.train().generate(prompts)
