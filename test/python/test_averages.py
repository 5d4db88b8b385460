"""`--ema`: the averages of a compiled program equal torch.optim.swa_utils.AveragedModel's, in evaluation and in files."""
import copy
import json
import re

import models
import oracle
import processes
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

DECAY = 0.8
STEPS = 6
RATE = 0.05


def train_in_torch(model, batches, decay=DECAY, skipped=()):
    """Returns (trained parameters, their averages, the averaged module). A skipped step changes neither parameters nor averages."""
    module = copy.deepcopy(model.module)
    averaged = AveragedModel(module, multi_avg_fn=get_ema_multi_avg_fn(decay))
    optimizer = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=RATE, momentum=0.9)
    for step in range(STEPS):
        loss = models.first_loss(module(**oracle.rows_of_step(batches, step, STEPS)))
        optimizer.zero_grad()
        loss.backward()
        if step not in skipped:
            optimizer.step()
            averaged.update_parameters(module)
    return dict(module.named_parameters()), dict(averaged.module.named_parameters()), averaged.module


def train_compiled(folder, name, batches, mesh, micro_batches, *flags, export="weights.safetensors", run_flags=()):
    """Compiles and trains a model; the program writes weights and averages. Returns its output."""
    optimizer = ("--optimizer", f"sgd(lr={RATE},momentum=0.9)", "--ema", DECAY)
    archive = oracle.export(name, folder)
    program = oracle.compile_model(folder, archive, mesh, "--micro-batches", micro_batches, *optimizer, *flags)
    save_file({n: v.contiguous() for n, v in batches.items()}, folder / "data.safetensors")
    return oracle.run(
        [program, "--data", "data.safetensors", "--steps", STEPS, "--export-weights", export, "--quiet", *run_flags], folder
    )


def worst_update(found, expected, before):
    """Returns the maximum over parameters of |dw - dw_torch| / |dw_torch|."""
    errors = {}
    for name, value in expected.items():
        change = value.detach() - before[name]
        if change.norm() > 1e-6:  # otherwise its gradient is only rounding errors, such as that of the key bias of attention
            errors[name] = ((found[name] - before[name]) - change).norm().item() / change.norm().item()
    assert errors
    return max(errors.values())


@pytest.mark.part(2)
@pytest.mark.parametrize(
    "name,mesh,micro_batches",
    [("gpt2", "dp=2", 1), ("gpt2", "tp=2", 1), ("gpt2", "dp=2,tp=2", 4), ("mlp", "dp=1", 4), ("llama", "tp=4", 1)],
)
def test_averages_equal_pytorch(tmp_path, name, mesh, micro_batches):
    """Compares weights, averages, and the evaluation losses of both, for models with tied, fused and grouped parameters."""
    model = models.MODELS[name]()
    batches = oracle.draw_batches(model, micro_batches, STEPS)
    evaluation = model.draw_inputs(77)
    save_file({n: v.contiguous() for n, v in evaluation.items()}, tmp_path / "eval.safetensors")
    said = train_compiled(
        tmp_path, name, batches, mesh, micro_batches, run_flags=("--eval-data", "eval.safetensors", "--log", "log.jsonl")
    )
    before = {n: p.detach().clone() for n, p in model.module.named_parameters()}
    trained, averages, averaged = train_in_torch(model, batches)
    found = load_file(tmp_path / "weights.ema.safetensors")
    assert worst_update(load_file(tmp_path / "weights.safetensors"), trained, before) < 1e-3
    assert worst_update(found, averages, before) < 1e-3
    assert worst_update(found, train_in_torch(model, batches, decay=0.79)[1], before) > 1e-3, "the comparison detects another decay"
    averaged.load_state_dict(found, strict=True)
    expected = models.first_loss(averaged.eval()(**evaluation)).item()
    losses = dict(re.findall(r"step 6: (eval loss.*?) ([0-9.]+) over", said))
    assert float(losses["eval loss of the averages"]) == pytest.approx(expected, rel=1e-5)
    assert float(losses["eval loss"]) != pytest.approx(expected, rel=1e-5)
    last = json.loads((tmp_path / "log.jsonl").read_text().splitlines()[-1])
    assert [last["eval_loss"], last["eval_loss_ema"]] == [pytest.approx(float(v), rel=1e-8) for v in losses.values()]


@pytest.mark.part(2)
@pytest.mark.parametrize("mesh,flags,dtype", [
    ("dp=1", ("--precision", "bf16"), torch.float32), ("dp=2", ("--precision", "bf16", "--zero", "1"), torch.float32),
    ("dp=2", ("--precision", "fp16", "--zero", "3"), torch.float32), ("pp=2", ("--precision", "bf16"), torch.float32),
    ("dp=2", (), torch.bfloat16),
])  # fmt: skip
def test_averages_are_evaluated_in_any_precision(tmp_path, mesh, flags, dtype):
    """The losses equal those of the exported weights and averages, also if parameters have copies in other types. Evaluations do not change training."""
    model = models.mlp()
    model.module.to(dtype)
    model.inputs = {n: v.to(dtype) if v.is_floating_point() else v for n, v in model.inputs.items()}
    batches = {n: v.to(dtype) if v.is_floating_point() else v for n, v in oracle.draw_batches(model, 1, STEPS).items()}
    torch.manual_seed(1)
    evaluation = {n: v.to(dtype) if v.is_floating_point() else v for n, v in model.draw_inputs(77).items()}
    save_file(batches, tmp_path / "data.safetensors")
    save_file(evaluation, tmp_path / "eval.safetensors")
    program = oracle.compile_model(tmp_path, model.export(tmp_path / "model.pt2"), mesh, "--optimizer", f"sgd(lr={RATE})", "--ema", DECAY, *flags)
    line = [program, "--data", "data.safetensors", "--steps", STEPS, "--quiet", "--export-weights"]
    oracle.run([*line, "plain.safetensors"], tmp_path)
    said = oracle.run([*line, "w.safetensors", "--eval-data", "eval.safetensors", "--eval-every", 2], tmp_path)
    losses = dict(re.findall(r"step 6: (eval loss.*?) ([0-9.]+) over", said))
    for weights, what in (("w.safetensors", "eval loss"), ("w.ema.safetensors", "eval loss of the averages")):
        alone = oracle.run([program, "--eval", "--eval-data", "eval.safetensors", "--weights", weights], tmp_path)
        assert float(losses[what]) == float(re.search(r"eval loss ([0-9.]+)", alone)[1]), (what, said, alone)
        assert (tmp_path / weights).read_bytes() == (tmp_path / weights.replace("w", "plain", 1)).read_bytes()
    assert len(set(losses.values())) == 2


def test_a_skipped_step_does_not_change_the_averages(tmp_path):
    """Tests two skipped steps: step 0, where the averages begin, and a later step."""
    model = models.mlp()
    batches = oracle.draw_batches(model, 1, STEPS)
    for step in (0, 3):
        oracle.rows_of_step(batches, step, STEPS)["labels"][:] = models.IGNORED
    train_compiled(tmp_path, "mlp", batches, "dp=2", 1)
    before = {n: p.detach().clone() for n, p in model.module.named_parameters()}
    _, averages, _ = train_in_torch(model, batches, skipped=(0, 3))
    assert worst_update(load_file(tmp_path / "weights.ema.safetensors"), averages, before) < 1e-4


def test_processes_keep_the_same_averages(tmp_path):
    """Weights, averages and their losses have the same bits as with threads. Only one process writes the log."""
    model = models.mlp()
    batches = oracle.draw_batches(model, 1, STEPS)
    save_file(model.draw_inputs(3), tmp_path / "eval.safetensors")
    more = ("--eval-data", "eval.safetensors", "--eval-every", 3, "--log", "log.jsonl")
    said = train_compiled(tmp_path, "mlp", batches, "dp=2", 1, run_flags=more)
    files = {name: (tmp_path / name).read_bytes() for name in ("weights.safetensors", "weights.ema.safetensors")}
    keys = [set(json.loads(line)) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    for name in (*files, "log.jsonl"):
        (tmp_path / name).unlink()
    command = ["./program", "--data", "data.safetensors", "--steps", STEPS, "--export-weights", "weights.safetensors", "--quiet", *more]
    ended = [processes.finish(process) for process in processes.start_by_hand(command, tmp_path, 2)]
    assert [status for status, _ in ended] == [0, 0], ended
    assert ended[0][1] == said and ended[1][1] == ""
    assert files == {name: (tmp_path / name).read_bytes() for name in files}
    assert [set(json.loads(line)) for line in (tmp_path / "log.jsonl").read_text().splitlines()] == keys and len(keys) == STEPS


def test_averages_exported_to_a_folder(tmp_path):
    """The subfolder `ema` of the weights has the averages, and transformers can load it. Frozen parameters are unchanged."""
    from transformers import GPT2LMHeadModel

    model = models.gpt2()
    batches = oracle.draw_batches(model, 1, STEPS)
    train_compiled(tmp_path, "gpt2", batches, "dp=2", 1, "--freeze", "*wpe*", export="trained")
    model.module.config.save_pretrained(tmp_path / "trained/ema")
    loaded = GPT2LMHeadModel.from_pretrained(tmp_path / "trained/ema").state_dict()
    trained = load_file(tmp_path / "trained/model.safetensors")
    assert torch.equal(loaded["transformer.wpe.weight"], model.module.transformer.wpe.weight)
    assert not torch.equal(loaded["transformer.wte.weight"], trained["transformer.wte.weight"])
    # The program also loads the averages by --weights, and evaluates them like other weights.
    save_file(model.draw_inputs(3), tmp_path / "eval.safetensors")
    said = oracle.run(["./program", "--weights", "trained/ema", "--eval", "--eval-data", "eval.safetensors"], tmp_path)
    module = GPT2LMHeadModel.from_pretrained(tmp_path / "trained/ema").eval()
    expected = module(**model.draw_inputs(3)).loss.item()
    assert float(re.search(r"eval loss ([0-9.]+)", said)[1]) == pytest.approx(expected, rel=1e-5)
    assert "averages" not in said, "a program without a training step has averages"


@pytest.mark.parametrize("value", ["0", "1", "1.5", "-0.1", "most", "nan"])
def test_bad_decay(tmp_path, exports, value):
    from refusals import refuse_compile

    refuse_compile(tmp_path, oracle.export("mlp", exports), f"--ema={value}", status=2, words=["--ema", value, "below 1"])
