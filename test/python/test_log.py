"""`--log`: the values of all keys equal those of PyTorch and of a clock."""
import json

import models
import oracle
import pytest
import torch
from safetensors.torch import save_file


def run_logged(folder, archive, data, mesh, *flags, run_flags=()):
    """Compiles and trains a model with --log. Returns the entries of the log."""
    oracle.compile_model(folder, archive, mesh, *flags)
    save_file({n: v.contiguous() for n, v in data.items()}, folder / "data.safetensors")
    oracle.run(["./program", "--data", "data.safetensors", "--log", "log.jsonl", "--quiet", *run_flags], folder)
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def llama_flops(config, samples, length):
    """Returns the flops of a step of a Llama: three times the matmuls with weights, and attention (half, since it is causal)."""
    head = config.hidden_size // config.num_attention_heads
    width, wide = config.hidden_size, config.intermediate_size
    layer = 2 * width * width + 2 * width * config.num_key_value_heads * head + 3 * width * wide
    products = 3 * 2 * samples * length * (config.num_hidden_layers * layer + width * config.vocab_size)
    scores = samples * config.num_attention_heads * length * length * head
    return products + config.num_hidden_layers * (2 * 2 + 2 * 5) * scores / 2  # 2 matmuls in forward, 5 in backward


@pytest.mark.part(2)
@pytest.mark.parametrize("mesh", ["dp=1", "dp=2,tp=2"])
def test_keys(tmp_path, exports, mesh):
    model = models.llama()
    batches = oracle.draw_batches(model, 2, 3)
    groups = ("--optimizer", "ndim<2=sgd(lr=0.5)", "--optimizer", "sgd(lr=0.25)", "--clip-norm", "0.1", "--micro-batches", 2)
    save_file(model.draw_inputs(5), tmp_path / "eval.safetensors")
    entries = run_logged(
        tmp_path, oracle.export("llama", exports), batches, mesh, *groups,
        run_flags=("--lr-schedule", "linear(steps=4)", "--eval-data", "eval.safetensors", "--eval-every", 2, "--losses", "l.txt"),
    )  # fmt: skip
    _, gradients = oracle.loss_and_gradients(model.module, oracle.rows_of_step(batches, 0, 3), torch.float32)
    norm = torch.stack([g.norm() for g in gradients.values()]).norm().item()
    assert norm > 0.1 and entries[0]["grad_norm"] == pytest.approx(norm, rel=1e-4), "the norm before clipping"
    flops = llama_flops(model.module.config, 8, 16)
    for step, (entry, loss) in enumerate(zip(entries, oracle.read_losses(tmp_path / "l.txt"), strict=True)):
        assert entry["step"] == step and entry["loss"] == pytest.approx(loss, rel=1e-8) and entry["skipped"] is False
        assert [entry["lr"], entry["lr.0"], entry["lr.1"]] == pytest.approx([rate * (1 - step / 4) for rate in (0.5, 0.5, 0.25)])
        seconds = entry["step_ms"] / 1e3
        assert 0 < seconds < 60 and entry["samples_s"] == pytest.approx(8 / seconds, rel=1e-3)
        assert entry["tokens_s"] == pytest.approx(8 * 16 / seconds, rel=1e-3)
        assert entry["flops_s"] == pytest.approx(flops / seconds, rel=1e-3), "flops of the whole model, on any layout"
        assert entry["peak_flops_s"] > 1e8 and entry["flops_use"] == pytest.approx(entry["flops_s"] / entry["peak_flops_s"], rel=1e-2)
        assert entry["memory"] > 1000 and ("eval_loss" in entry) == (step in (1, 2)) and "eval_loss_ema" not in entry


def test_a_step_without_labels(tmp_path, exports):
    batches = oracle.draw_batches(models.mlp(), 1, 2)
    oracle.rows_of_step(batches, 0, 2)["labels"][:] = models.IGNORED
    entries = run_logged(tmp_path, oracle.export("mlp", exports), batches, "dp=2", "--optimizer", "sgd(lr=0.1)")
    assert [(e["skipped"], e["loss"] == 0) for e in entries] == [(True, True), (False, False)]
    assert "tokens_s" not in entries[0], "floating-point inputs are not tokens"
    assert "grad_norm" not in entries[0] and "lr.0" not in entries[0]


def test_norm_without_clipping(tmp_path, exports):
    """--clip-norm inf logs the norm without clipping."""
    data = models.mlp().draw_inputs(1)
    plain = run_logged(tmp_path, oracle.export("mlp", exports), data, "dp=2", "--optimizer", "sgd(lr=1)", run_flags=("--steps", 4))
    measured = run_logged(
        tmp_path, oracle.export("mlp", exports), data, "dp=2", "--optimizer", "sgd(lr=1)", "--clip-norm", "inf", run_flags=("--steps", 4)
    )
    assert [e["loss"] for e in measured] == [e["loss"] for e in plain]
    _, gradients = oracle.loss_and_gradients(models.mlp().module, data, torch.float32)
    assert measured[0]["grad_norm"] == pytest.approx(torch.stack([g.norm() for g in gradients.values()]).norm().item(), rel=1e-5)


def test_a_line_every_few_steps(tmp_path, exports):
    """--log-every 3 logs every third step, evaluations and the last step. Except for times, the lines equal those of a full log."""
    data = models.mlp().draw_inputs(1)
    save_file(models.mlp().draw_inputs(5), tmp_path / "eval.safetensors")
    flags = ("--steps", 11, "--eval-data", "eval.safetensors", "--eval-every", 4, "--losses", "losses.txt")
    full, sparse = (
        run_logged(tmp_path, oracle.export("mlp", exports), data, "dp=2", "--optimizer", "sgd(lr=0.1)", run_flags=(*flags, *more))
        for more in ((), ("--log-every", 3))
    )
    assert [entry["done"] for entry in full] == list(range(1, 12))
    assert [entry["done"] for entry in sparse] == [3, 4, 6, 8, 9, 11]
    assert len(oracle.read_losses(tmp_path / "losses.txt")) == 11, "losses of all steps"
    for entry in sparse:
        same = full[entry["step"]]
        assert {key: entry[key] for key in ("loss", "lr", "skipped", "memory")} == {key: same[key] for key in ("loss", "lr", "skipped", "memory")}
        assert entry.get("eval_loss") == same.get("eval_loss") and ("eval_loss" in entry) == (entry["done"] in (4, 8, 11))
