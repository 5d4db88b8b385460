"""auto_accelerate of the Python package: strategies of ATorch as plans, and a training loop of ATorch that equals PyTorch.

To rewrite the expected flags and the tables of docs/python.md: build/venv/bin/python test/python/test_auto_accelerate.py
"""

import inspect
import json
import pickle
import re
import shutil
import sys
import types

import models
import pytest
import torch
from conftest import ROOT, package_folder, run_tool

sys.path.insert(0, str(package_folder()))
import parashard
from parashard import InputError, Plan, Unsupported, atorch, auto_accelerate, parallel, strategies

pytestmark = pytest.mark.usefixtures("one_thread", "shared_programs")
GOLDEN = ROOT / "test/golden/auto_accelerate.txt"
PAGE = ROOT / "docs/python.md"
REFRESH = "rewrite the files with: build/venv/bin/python test/python/test_auto_accelerate.py"


class Net(torch.nn.Module):
    """Takes a whole batch, and uses a part of it."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.base = torch.nn.Sequential(torch.nn.Linear(12, 24), torch.nn.GELU(), torch.nn.Linear(24, 24), torch.nn.GELU())
        self.classifier = torch.nn.Linear(24, 10)

    def forward(self, data):
        return self.classifier(self.base(data["sample"]))


class Samples(torch.utils.data.Dataset):
    """28 samples: the last batch of 8 is not complete."""

    def __len__(self):
        return 28

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return {"sample": torch.randn(12, generator=generator), "label": torch.randn(10, generator=generator)}


class Tokens(Samples):
    def __getitem__(self, index):
        tokens = torch.randint(0, 96, (16,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": tokens, "labels": tokens.roll(-1)}


# ---- strategies ----------------------------------------------------------------------------------------------------

THREE = ("parallel_mode", ([("tensor", 2), ("pipeline", 2), ("data", 2)], None))
# (strategy, ranks): each method and option, and each reason to refuse one.
STRATEGIES = [
    (["parallel_mode"], 4),
    (["parallel_mode"], None),
    ([("parallel_mode", ([("data", 8)], None))], None),
    ([("parallel_mode", ([("data", 8)], None))], 4),
    ([("parallel_mode", ([("data", 8)], [0, 1, 2, 3, 4, 5, 6, 7]))], None),
    ([("parallel_mode", ([("data", 2)], [1, 0]))], None),
    ([("parallel_mode", [("data", 8)])], None),
    ([("parallel_mode", ([("expert", 8)], None))], None),
    ([("parallel_mode", ([("data", 2), ("zero", 2)], None)), "zero1"], None),
    ([("parallel_mode", ([("zero", 4)], None)), "zero2"], None),
    ([("parallel_mode", ([("zero", 4)], None)), "zero2"], 8),
    ([("parallel_mode", ([("zero", 4)], None))], None),
    ([("parallel_mode", ([("tensor", 2)], None)), "amp_native"], None),
    ([("parallel_mode", ([("tensor", 4), ("pipeline", 2)], None)), "mixed_parallel"], 12),
    (["zero1"], None),
    (["amp_native"], 2),
    (["parallel_mode", "zero1"], 4),
    (["parallel_mode", ("zero1", {"use_ds_zero": True})], 4),
    (["parallel_mode", ("zero1", ["use_ds_zero"])], 4),
    (["parallel_mode", "zero2"], 4),
    (["parallel_mode", ("zero2", {"not_use_fsdp": True})], 4),
    (["parallel_mode", "fsdp"], 4),
    (["parallel_mode", ("fsdp", {"sync_module_states": True, "use_orig_params": True})], 4),
    *((["parallel_mode", ("fsdp", {option: True})], 4) for option in strategies.FSDP if not strategies.FSDP[option].values),
    (["parallel_mode", ("fsdp", {"sync_module_states": False})], 4),
    (["parallel_mode", ("fsdp", {"shard": True})], 4),
    (["parallel_mode", "zero1", "fsdp"], 4),
    (["parallel_mode", "zero1", ("zero1", None)], 4),
    (["amp_native"], None),
    ([("amp_native", "bf16")], None),
    ([("amp_native", {"dtype": torch.bfloat16})], None),
    ([("amp_native", {"dtype": torch.float64})], None),
    ([("amp_native", {"dtype": torch.bfloat16, "skip_if_nonfinite": True})], None),
    (["half"], None),
    ([("half", "bf16")], None),
    ([("half", "bf16"), ("amp_native", "bf16")], None),
    (["fp8"], None),
    ([("amp_native", "bf16"), "fp8"], None),
    (["fp8", ("amp_native", "bf16")], None),
    (["fp8", "amp_native"], None),
    ([("fp8", {"include": ["base"], "exclude": ("base.0", "classifier"), "margin": 1, "amax_history_len": 32})], None),
    ([("fp8", {"include": None, "interval": 1, "fp8_format": "HYBRID", "amax_compute_algo": "max", "reduce_amax": True})], None),
    ([("fp8", {"fp8_format": "E4M3"})], None),
    ([("fp8", {"amax_compute_algo": "most_recent"})], None),
    ([("fp8", {"interval": 2})], None),
    ([("fp8", {"reduce_amax": False})], None),
    ([("fp8", {"verbose": True})], None),
    (["module_replace"], None),
    ([("module_replace", {"my_module": True})], None),
    (["checkpoint"], None),
    ([("checkpoint", (torch.nn.GELU, "classifier"))], None),
    ([("checkpoint", {"wrap_class": "Sequential", "no_reentrant": True})], None),
    ([("checkpoint", {"wrap_class": "Sequential", "no_reentrant": False})], None),
    ([("checkpoint", ("GPT2MLP",))], None),
    (["tensor_parallel"], None),
    ([("parallel_mode", ([("tensor", 2)], None)), "tensor_parallel"], 4),
    ([("parallel_mode", ([("tensor", 2)], None)), ("tensor_parallel", {"sharding_policy": "replicated"})], 2),
    ([("parallel_mode", ([("pipeline", 2)], None)), "pipeline_parallel"], None),
    ([("parallel_mode", ([("pipeline", 2)], None)),
      ("pipeline_parallel", {"micro_batches": 4, "schedule": "interleaved", "num_chunks": 2, "split_method": "parameters"})], None),
    ([THREE, "mixed_parallel"], None),
    ([("parallel_mode", ([("tensor", 2), ("pipeline", 2), ("data", 2)], None)), "mixed_parallel", "zero1", ("amp_native", "bf16")], 16),
    ([THREE, ("mixed_parallel", {"micro_batches": 4, "sharding_policy": "megatron+sp"})], None),
    ([THREE, "tensor_parallel", "pipeline_parallel"], None),
    ([THREE, "pipeline_parallel"], None),
    (["ds_3d_parallel"], None),
    (["zero_1"], None),
    ([("zero1",)], None),
    ([("zero1", None, False, 1)], None),
    ([1], None),
    ({"zero1": None}, None),
]  # fmt: skip


def translate(strategy, ranks):
    """Returns the flags of a strategy, or its error."""
    try:
        return str(strategies.make_plan(strategies.read_methods(strategy), Net(), ranks))
    except parashard.Error as error:
        return f"{type(error).__name__}: {error}"


def write_golden():
    return "".join(f"{strategy}{'' if ranks is None else f', ranks={ranks}'}\n    {translate(strategy, ranks)}\n" for strategy, ranks in STRATEGIES)


def test_the_flags_of_strategies():
    assert write_golden() == GOLDEN.read_text(), REFRESH
    used = {item if isinstance(item, str) else item[0] for strategy, _ in STRATEGIES for item in strategy if isinstance(item, (str, tuple))}
    assert set(strategies.METHODS) <= used


def test_the_compiler_accepts_the_flags(tmp_path):
    """Plans a model under each strategy of the table that is not an error."""
    net = Net()
    batch = atorch.Batch(net, None, mse, {name: torch.zeros(8, size) for name, size in (("sample", 12), ("label", 10))})
    with batch.graph(True):
        parashard.export.export(net, batch.example, tmp_path / "model.pt2")
    texts = {text for strategy, ranks in STRATEGIES if (text := translate(strategy, ranks)).startswith("--mesh")}
    assert len(texts) > 15
    for text in sorted(texts):
        done = run_tool("ps-compile", tmp_path / "model.pt2", *text.split(), "--batch", "16", "--no-codegen")
        assert done.returncode == 0, f"{text}: {done.stderr}"


# ---- training ------------------------------------------------------------------------------------------------------

SAMPLE = """
import torch
from atorch.auto import auto_accelerate
from torch import nn, optim

def optim_func(parameters, **optim_args):
    return optim.SGD(parameters, **optim_args)

def optim_param_func(model):
    return [{"params": model.base.parameters()}, {"params": model.classifier.parameters(), "lr": 1e-3}]

def loss_func(input, output):
    loss = nn.MSELoss()
    return loss(input["label"], output)

def prepare_input(data, device):
    return {"sample": (2 * data["sample"]).to(device), "label": data["label"].to(device)}

def train(model, dataset, **options):
    status, result, best_strategy = auto_accelerate(
        model, optim_func, dataset, loss_func, prepare_input, optim_args={"lr": 0.01, "momentum": 0.9},
        optim_param_func=optim_param_func, dataloader_args={"batch_size": 8, "shuffle": True, "drop_last": True},
        lr_scheduler_cls=optim.lr_scheduler.StepLR, lr_scheduler_args={"step_size": 2}, **options,
    )
    assert status
    model, optimizer, scheduler = result.model, result.optim, result.lr_scheduler
    losses = []
    torch.manual_seed(1)
    for epoch in range(2):
        for data in result.dataloader:
            data = result.prepare_input(data, "cpu")
            optimizer.zero_grad()
            loss = result.loss_func(data, model(data))
            if result.args["use_optim_backward"]:
                optimizer.backward(loss)
            else:
                loss.backward()
            optimizer.step()
            losses.append(loss.item())
        scheduler.step()
    return losses, model, best_strategy
"""


def mse(input, output):
    return torch.nn.functional.mse_loss(output, input["label"])


def accelerate_plainly(
    model, optim_func, dataset, loss_func, prepare_input=None, model_input_format=None, *, optim_args=None, optim_param_func=None,
    dataloader_args=None, lr_scheduler_cls=None, lr_scheduler_args=None,
):  # fmt: skip
    """Returns what auto_accelerate returns, with the model of PyTorch on one rank."""
    optimizer = optim_func(optim_param_func(model) if optim_param_func else model.parameters(), **optim_args)
    scheduler = lr_scheduler_cls and lr_scheduler_cls(optimizer, **lr_scheduler_args)
    loader = torch.utils.data.DataLoader(dataset, **{"drop_last": True, **dataloader_args})
    return True, atorch.Result(model, optimizer, loader, loss_func, prepare_input or atorch.move, dict(atorch.LOOP), scheduler), None


def run_sample(function, model, **options):
    """Runs the sample of ATorch with another auto_accelerate. Returns the losses, the model and the strategy."""
    module = types.ModuleType("auto")
    module.auto_accelerate = function
    names = {}
    sys.modules["auto"] = module
    exec(SAMPLE.replace("atorch.auto", "auto"), names)
    return names["train"](model, Samples(), **options)


@pytest.mark.part(2)
@pytest.mark.parametrize("strategy, ranks", [
    (["parallel_mode", "zero1"], 2),
    (["parallel_mode", "fsdp"], 2),
    ([THREE, "mixed_parallel", "zero1"], None),
    (None, 2),
], ids=["zero1", "fsdp", "3d", "automatic"])  # fmt: skip
def test_the_sample_of_atorch(strategy, ranks):
    net = Net()
    found, model, plan = run_sample(auto_accelerate, net, load_strategy=strategy, ranks=ranks, cluster=None if strategy else "cpu-mpi")
    expected, trained, _ = run_sample(accelerate_plainly, net)
    assert len(found) == 6 and found == pytest.approx(expected, rel=1e-6)
    assert plan.ranks == (ranks or 8)
    for name, value in trained.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name].clone(), value, rtol=1e-5, atol=1e-6)


def shifted(input, output):
    return torch.nn.functional.cross_entropy(output[1].flatten(0, 1), input["labels"].flatten())


def train_gpt(function, model, loss_func, **options):
    """Trains with batches that are dicts, then evaluates the first batch. Returns the losses."""
    _, result, _ = function(
        model, torch.optim.AdamW, Tokens(), loss_func, None, "unpack_dict", optim_args={"lr": 1e-3, "eps": 1e-3},
        dataloader_args={"batch_size": 8}, **options,
    )  # fmt: skip
    losses = []
    for batch in result.dataloader:
        batch = result.prepare_input(batch, torch.device("cpu"))
        loss = result.loss_func(batch, result.model(**batch))
        loss.backward()
        result.optim.step()
        result.optim.zero_grad()
        losses.append(loss.item())
    result.model.eval()
    with torch.no_grad():
        outputs = result.model(**batch)
        return [*losses, result.loss_func(batch, outputs).item(), outputs[1].sum().item()]


@pytest.mark.part(2)
@pytest.mark.parametrize("options", [
    {"ranks": 2, "cluster": "cpu-mpi"},
    {"ranks": 4, "cluster": "cpu-mpi", "included": ["pipeline_parallel", "tensor_parallel"], "excluded": ["zero1", "checkpoint"], "time_limit": 20},
    {"load_strategy": ["parallel_mode", ("zero1", None, True)], "ranks": 2, "cluster": "cpu-mpi", "finetune_strategy": True},
    {"load_strategy": ["parallel_mode", "zero2"], "ranks": 2, "drive": "step"},
], ids=["automatic", "included", "finetuned", "step"])  # fmt: skip
def test_a_transformer(options):
    """GPT returns its loss and logits; the loss function uses the logits."""
    net = models.gpt().module.train()
    found = train_gpt(auto_accelerate, net, shifted, **options)
    assert found == pytest.approx(train_gpt(accelerate_plainly, net, shifted), rel=1e-5)


class Pair(Net):
    def forward(self, sample, label):
        return super().forward({"sample": sample}), label.mean()


def train_pairs(function, **options):
    """Trains with batches that are lists, and a loss function that returns a tuple. Returns the losses."""
    data = torch.utils.data.TensorDataset(*(torch.stack(values) for values in zip(*(Samples()[index].values() for index in range(16)))))
    net = Pair()
    _, result, _ = function(net, torch.optim.SGD, data, lambda input, output: (mse({"label": input[1]}, output[0]), output[1]), None,
                            "unpack_sequence", optim_args={"lr": 0.1}, dataloader_args={"batch_size": 8}, **options)  # fmt: skip
    losses = []
    for batch in result.dataloader:
        batch = result.prepare_input(batch, "cpu")
        loss, _ = result.loss_func(batch, result.model(*batch))
        result.optim.zero_grad()
        loss.backward()
        result.optim.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("strategy, tolerance", [(["parallel_mode"], 1e-6), (["parallel_mode", "amp_native"], 1e-2)], ids=["autograd", "step"])
def test_sequences(strategy, tolerance):
    """The loss is in PyTorch with fp32, and in the graph with fp16."""
    assert train_pairs(auto_accelerate, load_strategy=strategy, ranks=2) == pytest.approx(train_pairs(accelerate_plainly), rel=tolerance)


@pytest.mark.part(2)
@pytest.mark.parametrize("strategy", [["parallel_mode", "zero1"], [THREE, "mixed_parallel"]], ids=["autograd", "step"])
def test_a_saved_strategy(strategy, tmp_path, monkeypatch):
    """A file is loaded as the same plan, and ps-compile --plan makes the program of the package, compared before its code is generated."""
    made = []

    def compile_archive(archive, flags, entries):
        shutil.copy(archive, tmp_path / "model.pt2")
        made.append((compile_program(archive, flags, entries), flags))
        return made[-1][0]

    compile_program = parallel.compile_archive
    monkeypatch.setattr(parallel, "compile_archive", compile_archive)
    file = tmp_path / "strategy.json"
    plan = run_sample(auto_accelerate, Net(), load_strategy=strategy, ranks=8, save_strategy_to_file=file)[2]
    for loaded in (file, str(file), file.read_bytes(), file.read_text(), plan):
        assert run_sample(auto_accelerate, Net(), load_strategy=loaded)[2] == plan
    assert len({path for path, _ in made}) == 1
    flags = made[0][1]
    theirs = ["--plan", file, *flags[len(plan.arguments()) :]]
    for name, arguments in (("ours", flags), ("theirs", theirs)):
        command = ["ps-compile", tmp_path / "model.pt2", "-o", tmp_path / f"{name}.mlir", "--stop-after", "placed", *arguments]
        done = run_tool(*command)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "ours.mlir").read_text() == (tmp_path / "theirs.mlir").read_text()


def test_strategies_as_text(tmp_path):
    strategy = [["parallel_mode", [[["data", 2]], None]], "zero1"]
    (tmp_path / "strategy.json").write_text(json.dumps(strategy))
    read = atorch.read_strategy(tmp_path / "strategy.json")
    assert strategies.make_plan(read, Net(), None) == Plan("dp=2", zero=1)


# ---- arguments -----------------------------------------------------------------------------------------------------


def call(**options):
    given = {"optim_func": torch.optim.SGD, "dataset": Samples(), "loss_func": mse, "optim_args": {"lr": 0.1}, "dataloader_args": {"batch_size": 8},
             "load_strategy": ["parallel_mode"], "ranks": 2}  # fmt: skip
    return auto_accelerate(Net(), **{**given, **options})


@pytest.mark.parametrize("options, error, message", [
    ({"optim_func": None}, InputError, "give optim_func"),
    ({"dataset": None}, InputError, "give dataset"),
    ({"dataloader_args": None}, InputError, "dataloader_args={\"batch_size\": N"),
    ({"dataloader_args": {"batch_size": 8, "drop_last": False}}, Unsupported, "28 samples do not divide into batches of 8"),
    ({"dataloader_args": {"batch_size": 8, "sampler": [0]}, "distributed_sampler_cls": torch.utils.data.DistributedSampler}, InputError,
     "distributed_sampler_cls and the sampler"),
    ({"model_input_format": "dict"}, InputError, "expected None, 'unpack_sequence', 'unpack_dict'"),
    ({"model_input_format": "unpack_sequence"}, InputError, "needs batches that are lists or tuples, but they are dict"),
    ({"model_input_format": "unpack_dict", "prepare_input": lambda data, device: tuple(data.values())}, InputError, "batches that are dicts"),
    ({"prepare_input": lambda data, device: {**data, "scale": 2}}, InputError, "scale is int; make prepare_input return tensors"),
    ({"prepare_input": lambda data, device: {**data, "a b": data["label"], "a_b": data["label"]}}, InputError, "two tensors .* name a_b"),
    ({"ignore_dryrun_on_load_strategy": False}, Unsupported, "nothing runs for a trial"),
    ({"find_unused_parameters": True}, Unsupported, "are always found"),
    ({"load_strategy": "fsdp"}, InputError, "No such file or directory; give the path of a plan file, or a list of methods"),
    ({"load_strategy": pickle.dumps([])}, Unsupported, "pickled strategies are not read"),
    ({"load_strategy": b"{"}, InputError, "load_strategy: Expecting"),
    ({"load_strategy": 3}, InputError, "a strategy is int; expected a list"),
    ({"load_strategy": Plan("dp=4")}, InputError, "the strategy has 4 ranks, which do not fit ranks=2"),
    ({"load_strategy": ["parallel_mode", ("zero1", None, True)]}, InputError, "tunable=True, which needs load_strategy with"),
    ({"included": ["zero1"]}, InputError, "included is for a search"),
    ({"excluded": ["zero1"]}, InputError, "excluded is for a search"),
    ({"time_limit": 3}, InputError, "time_limit is for a search"),
    ({"cluster": "cpu"}, InputError, "cluster is for a search"),
    ({"lr_scheduler_args": {"step_size": 1}}, InputError, "needs lr_scheduler_cls"),
    ({"load_strategy": None, "finetune_strategy": True}, InputError, "needs load_strategy"),
    ({"load_strategy": None, "ranks": None}, InputError, "give ranks=N"),
    ({"load_strategy": None, "included": ["zero1"], "excluded": ["zero1"]}, InputError, "both in included and in excluded"),
    ({"load_strategy": None, "included": [("checkpoint", ("GELU",))]}, Unsupported, "a search does not choose the modules"),
    ({"load_strategy": None, "included": [("zero1", None, True)]}, InputError, "tunable=True, which needs load_strategy with"),
    ({"load_strategy": None, "excluded": [("zero1", {"use_ds_zero": True})]}, InputError, "excluded has a config of \"zero1\""),
    ({"dataloader_args": {"batch_size": 29}}, InputError, "28 samples, which are fewer than the batch_size 29"),
    ({"load_strategy": None, "excluded": ["zero4"]}, InputError, "did you mean zero"),
    ({"load_strategy": None, "excluded": ["mixed_parallel"]}, Unsupported, "exclude \"tensor_parallel\" or"),
    ({"load_strategy": None, "excluded": ["module_replace"]}, Unsupported, "the compiler always fuses"),
    ({"load_strategy": [THREE, "mixed_parallel"], "ranks": 8, "drive": "autograd"}, Unsupported, "the strategy has a pipeline; remove drive"),
    ({"load_strategy": ["amp_native"], "ranks": None, "drive": "autograd"}, Unsupported, "a scaled loss"),
    ({"load_strategy": [THREE, "mixed_parallel"], "ranks": 8, "loss_func": None}, Unsupported, "return the loss"),
    ({"load_strategy": [THREE, "mixed_parallel"], "ranks": 8, "loss_func": lambda i, o: o.sum() if o.sum() > 0 else o.mean()},
     parashard.ExportFailed, "torch.where"),
])  # fmt: skip
def test_bad_arguments(options, error, message):
    with pytest.raises(error, match=message):
        call(**options)


def test_bad_calls():
    """The graph has the loss of the last call."""
    _, result, _ = call(drive="step")
    data = next(iter(result.dataloader))
    outputs = result.model(data)
    for use, message in (
        (lambda: result.model(**data), "call model\\(input\\)"),
        (lambda: result.loss_func(data, data["label"]), "the outputs of the last call"),
        (lambda: result.model({"sample": data["sample"]}), "missing a required argument: 'label'"),
        (lambda: outputs.sum(), "drive=\"autograd\""),
    ):
        with pytest.raises(parashard.Error, match=message):
            use()
    result.loss_func(data, outputs).backward()


def test_constraints_of_a_search():
    def constrain(included, excluded, ranks=4):
        return strategies.constrain(strategies.read_methods(included), strategies.read_methods(excluded), Net(), ranks)

    assert constrain([], ["zero1", "fsdp", "checkpoint", "pipeline_parallel", "amp_native"]) == {"zero": [0, 2], "recompute": ["none"], "mesh": "pp=1"}
    assert constrain(["mixed_parallel", ("amp_native", "bf16")], ["zero2"]) == {"precision": "bf16", "mesh": "pp=>=2,tp=>=2", "zero": [0, 1, 3]}
    assert constrain(["zero1", "checkpoint"], ["fsdp"]) == {"zero": 1, "recompute": ["selective", "full"]}
    assert constrain([("parallel_mode", ([("tensor", 2)], None)), "tensor_parallel"], []) == {"mesh": "dp=2,tp=2"}


def test_the_arguments_of_a_search(monkeypatch):
    """The search gets the optimizer, the loss and all samples of a step."""
    given = {}

    def generate_plan(constraints, model, *, example, optimizer_fn, **options):
        loss, output = model.forward(**example)
        given.update(options, constraints=constraints, optimizer=type(optimizer_fn(model)), shape=output.shape, loss=loss.shape)
        return Plan("dp=2")

    monkeypatch.setattr(atorch, "generate_plan", generate_plan)
    call(load_strategy=None, included=["zero1"], cluster="cpu-mpi", time_limit=5)
    assert given == {
        "ranks": 2, "cluster": "cpu-mpi", "time_limit": 5, "constraints": {"zero": 1},
        "optimizer": torch.optim.SGD, "shape": (8, 10), "loss": (),
    }  # fmt: skip


def test_the_order_of_data():
    """One process reads the samples of all ranks."""
    sampler = torch.utils.data.DistributedSampler
    arguments = {"batch_size": 8, "shuffle": True}
    loader = atorch.make_loader(Samples(), arguments, sampler)
    theirs = torch.utils.data.DataLoader(Samples(), batch_size=8, drop_last=True, sampler=sampler(Samples(), num_replicas=1, rank=0, shuffle=True))
    for found, expected in zip(loader, theirs):
        assert torch.equal(found["sample"], expected["sample"])


def test_verbose(capsys):
    call(verbose=True)
    assert capsys.readouterr().out == "strategy: --mesh dp=2\nloss_func: in PyTorch\n"


# ---- documents -----------------------------------------------------------------------------------------------------


def write_flags(flags):
    return " ".join(f"--{flag} {value}" for flag, value in flags.items())


def write_row(*cells):
    return f"| {' | '.join(cells)} |"


def write_methods():
    rows = [write_row("method", "what it does", "flags"), "|---|---|---|"]
    for name, method in strategies.METHODS.items():
        flags = f"`{write_flags(method.flags)}`" if method.flags else ""
        rows.append(write_row(f"`{name}`", method.meaning or f"refused: {method.refused}", flags))
    return rows


def write_options():
    """Returns one row for each text; options with equal texts share a row."""
    owners, rows = {}, {}
    for name, method in strategies.METHODS.items():
        for option, row in method.options.items():
            values = ", ".join(f"`{value}`{f': `{write_flags(flags)}`' if flags else ''}" for value, flags in row.values.items())
            owners.setdefault((option, values or ("any" if row.make else "no value"), row.meaning), []).append(f"`{name}`")
    for (option, *texts), names in owners.items():
        rows.setdefault((", ".join(names), *texts), []).append(f"`{option}`")
    head = [write_row("option", "of", "accepted values", "meaning, or why other values are refused"), "|---|---|---|---|"]
    return head + [write_row(", ".join(options), *cells) for cells, options in rows.items()]


def write_arguments():
    rows = [write_row("argument", "meaning"), "|---|---|"]
    for name, option in atorch.ARGUMENTS.items():
        rows.append(write_row(f"`{name}`", f"only `{next(iter(option.values))}`: {option.meaning}" if option.values else option.meaning))
    return rows


def write_tables():
    """Returns the tables of docs/python.md, by their headings."""
    tables = {"### Methods of a strategy": write_methods(), "### Options of methods": write_options(), "### Arguments of auto_accelerate": write_arguments()}
    return {heading: "\n".join(rows) for heading, rows in tables.items()}


def test_the_tables_of_the_page():
    text = PAGE.read_text()
    for heading, table in write_tables().items():
        assert f"\n{table}\n" in text.split(heading, 1)[1], REFRESH
    assert list(atorch.ARGUMENTS) == list(inspect.signature(auto_accelerate).parameters)


def write_files():
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text(write_golden())
    text = PAGE.read_text()
    for heading, table in write_tables().items():
        before, after = text.split(heading, 1)
        text = before + heading + re.sub(r"(^\|.*\n)+", lambda _, table=table: table + "\n", after, count=1, flags=re.M)
    PAGE.write_text(text)


if __name__ == "__main__":
    write_files()
