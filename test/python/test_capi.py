"""Training through the C API equals PyTorch: with cotangents from the host, several pending forwards, and two models at once."""
import copy
import ctypes
import os
import pathlib
import shutil
import subprocess
import sys

import models
import oracle
import pytest
import torch
from capi import Program, describe
from conftest import tools_folder

FLAG, OPTIMIZER, TOLERANCE = oracle.OPTIMIZERS["sgd"]


def output_name(archive):
    """Returns the name of the only output of an export."""
    return torch.export.load(archive).graph_signature.user_outputs[0]


def make_program(folder, model, mesh, name="program"):
    """Compiles a model without a loss to a library and opens it. Returns the program and the name of its output."""
    archive = model.export(folder / f"{name}.pt2")
    output = output_name(archive)
    library = oracle.compile_model(
        folder, archive, mesh, "--loss", "none", "--differentiate", output, "--optimizer", FLAG, out=f"{name}.so"
    )
    return Program(library), output


def assert_same_updates(program, module, before):
    for name, parameter in module.named_parameters():
        expected = parameter.detach() - before[name]
        ours = program.get(name, parameter.detach()) - before[name]
        if expected.abs().max() > 1e-6 * max(p.detach().abs().max() for p in module.parameters()):
            # Skips elements that change only by rounding errors, such as the key bias of attention.
            noise = expected.abs() < 1e-5 * expected.abs().max()
            error = (ours - expected)[~noise].norm() / expected[~noise].norm()
            assert error < TOLERANCE, name


@pytest.mark.parametrize("mesh", ["dp=1", "dp=2"])
def test_two_forwards_before_two_backwards(tmp_path, mesh):
    """Runs two forwards, their backwards in the opposite order, and a third pair. Then one update uses the accumulated gradients."""
    model = models.gpt(loss=False)
    program, output = make_program(tmp_path, model, mesh)
    module = copy.deepcopy(model.module)
    before = {n: p.detach().clone() for n, p in module.named_parameters()}
    optimizer = OPTIMIZER(module.parameters())
    batches = [model.draw_inputs(seed) for seed in (1, 2, 3)]
    generator = torch.Generator().manual_seed(4)
    cotangents = []

    def forward(batch, slot):
        expected = module(**batch)
        ours = torch.empty_like(expected)
        program.call("forward", batch, {output: ours}, slot)
        torch.testing.assert_close(ours, expected.detach(), rtol=1e-4, atol=1e-5)
        cotangents.append(torch.randn(expected.shape, generator=generator) / 100)
        return expected

    def backward(expected, slot):
        expected.backward(cotangents[slot])
        program.backward({output: cotangents[slot]}, slot)

    program.zero_grad()
    first, second = forward(batches[0], 0), forward(batches[1], 1)
    backward(second, 1)
    backward(first, 0)
    cotangents.clear()
    backward(forward(batches[2], 0), 0)
    for name, parameter in module.named_parameters():
        gradient = program.get("grad." + name, parameter.detach())
        largest = max(p.grad.abs().max() for p in module.parameters())
        assert (gradient - parameter.grad).abs().max() < 1e-5 * largest, name
    optimizer.step()
    program.update()
    assert_same_updates(program, module, before)
    program.close()


@pytest.mark.parametrize("mesh", ["dp=1", "dp=2,tp=2"])
def test_gradients_after_zero_grad(tmp_path, mesh):
    """The first backward after zero_grad may overwrite the gradients. Nobody sees old gradients, and those that the host sets are dropped."""
    model = models.gpt(loss=False)
    program, output = make_program(tmp_path, model, mesh)
    batch = model.draw_inputs(1)
    logits = torch.empty_like(model.module(**batch))
    parameters = {"grad." + name: parameter.detach() for name, parameter in model.module.named_parameters()}

    def run():
        program.call("forward", batch, {output: logits})
        program.backward({output: logits / 100})
        return read()

    def read():
        return {name: program.get(name, like) for name, like in parameters.items()}

    program.zero_grad()
    once, twice = run(), run()
    largest = max(gradient.abs().max() for gradient in once.values())
    assert largest > 0 and all((twice[name] - 2 * gradient).abs().max() < 1e-6 * largest for name, gradient in once.items())
    program.zero_grad()
    assert all(gradient.abs().max() == 0 for gradient in read().values())
    for name, like in parameters.items():
        program.set(name, torch.ones_like(like))
    program.zero_grad()
    again = run()
    assert all(torch.equal(again[name], gradient) for name, gradient in once.items())
    program.close()


class TwoHeads(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body, self.left, self.right = torch.nn.Linear(6, 8), torch.nn.Linear(8, 4), torch.nn.Linear(8, 3)

    def forward(self, x):
        h = self.body(x).tanh()
        return {"left": self.left(h), "right": self.right(h)}


def test_outputs_without_a_cotangent(tmp_path):
    """An output without a cotangent does not contribute to the gradients."""
    module, x = TwoHeads(), torch.randn(4, 6, generator=torch.Generator().manual_seed(1))
    archive = models.Model("heads", module, {"x": x}).export(tmp_path / "heads.pt2")
    program = Program(oracle.compile_model(tmp_path, archive, "dp=2", "--loss", "none", "--optimizer", FLAG, out="heads.so"))
    outputs = {name: torch.empty_like(value) for name, value in module(x).items()}
    for name in ("left", "right", "left"):
        cotangent = torch.ones_like(outputs[name])
        module.zero_grad()
        module(x)[name].backward(cotangent)
        program.zero_grad()
        program.call("forward", {"x": x}, outputs)
        program.backward({name: cotangent})
        for parameter, value in module.named_parameters():
            expected = torch.zeros_like(value) if value.grad is None else value.grad
            torch.testing.assert_close(program.get("grad." + parameter, value.detach()), expected)
    program.call("forward", {"x": x}, outputs)
    with pytest.raises(RuntimeError, match="no cotangent is given; give that of at least one output: (left, right|right, left)"):
        program.backward({})
    program.close()


def test_two_models_in_one_process_interleaved(tmp_path):
    """Two programs in one process do not affect each other."""
    programs, modules, starts, optimizers = [], [], [], []
    for index, model in enumerate((models.gpt(loss=False), models.gpt(loss=False, layers=1, width=16))):
        program, output = make_program(tmp_path, model, "dp=2", f"program{index}")
        module = copy.deepcopy(model.module)
        programs.append((program, output, model))
        modules.append(module)
        starts.append({n: p.detach().clone() for n, p in module.named_parameters()})
        optimizers.append(OPTIMIZER(module.parameters()))
    for step in range(2):
        results = []
        for (program, output, model), module in zip(programs, modules):
            batch = model.draw_inputs(step)
            expected = module(**batch)
            ours = torch.empty_like(expected)
            program.zero_grad()
            program.call("forward", batch, {output: ours})
            results.append((expected, torch.randn(expected.shape, generator=torch.Generator().manual_seed(step)) / 100))
        for (program, output, _), (expected, cotangent), optimizer in zip(programs, results, optimizers):
            optimizer.zero_grad()
            expected.backward(cotangent)
            optimizer.step()
            program.backward({output: cotangent})
            program.update()
    for (program, _, _), module, before in zip(programs, modules, starts):
        assert_same_updates(program, module, before)
        program.close()


def test_errors_are_status_values_with_a_message(tmp_path):
    program, _ = make_program(tmp_path, models.gpt(loss=False), "dp=1")
    with pytest.raises(RuntimeError, match="no.such.variable"):
        program.get("no.such.variable", torch.zeros(1))
    with pytest.raises(RuntimeError, match="pending"):
        program.backward({}, 0)
    program.close()
    with pytest.raises(RuntimeError, match="nothing.so"):
        Program(tmp_path / "nothing.so")


@pytest.mark.skipif(not (shutil.which("cc") or shutil.which("clang-22")), reason="needs a C compiler")
def test_example_in_c(tmp_path):
    """Builds and runs examples/c-api as its first lines describe. Its losses equal PyTorch's."""
    root = pathlib.Path(__file__).resolve().parents[2]
    model = models.mlp()
    model.export(tmp_path / "mlp.pt2")
    oracle.compile_model(tmp_path, tmp_path / "mlp.pt2", "dp=2", "--optimizer", "sgd(lr=0.1)", out="mlp.so")
    library = tools_folder().parent / "lib"
    oracle.run(
        [shutil.which("cc") or "clang-22", f"-I{root / 'include'}", root / "examples/c-api/finetune.c", "-o", "finetune",
         f"-L{library}", "-lpsrt", f"-Wl,-rpath,{os.path.abspath(library)}"],
        tmp_path,
    )  # fmt: skip
    said = oracle.run(["./finetune", "mlp.so"], tmp_path)
    inputs = {"x": (torch.arange(96) % 7 / 7).reshape(8, 12), "labels": torch.arange(8) % 10}
    optimizer = torch.optim.SGD(model.module.parameters(), lr=0.1)
    for step in range(2):
        loss = model.module(**inputs)[0]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        line = next(line for line in said.splitlines() if line.startswith(f"step {step}: loss "))
        assert float(line.split()[-1]) == pytest.approx(float(loss.detach()), abs=2e-6)
    assert float(said.split()[-1]) == pytest.approx(float(model.module.layers[4].bias.detach()[0]), abs=2e-6)
    assert "no_such.so" in oracle.run(["./finetune", "./no_such.so"], tmp_path, expect=1)


BAD_ARGUMENT = 2


def test_hyperparameters_change(tmp_path):
    """Sets all scalars of AdamW between steps. Losses equal PyTorch's."""
    model = models.mlp()
    flags = ("--optimizer", "adamw(lr=1e-2,weight_decay=0.1)", "--clip-norm", "inf")
    program = Program(oracle.compile_model(tmp_path, model.export(tmp_path / "mlp.pt2"), "dp=2", *flags, out="mlp.so"))
    optimizer = torch.optim.AdamW(model.module.parameters(), lr=1e-2, weight_decay=0.1)
    clip = float("inf")
    for step in range(5):
        inputs = model.draw_inputs(step)
        loss = model.module(**inputs)[0]
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.module.parameters(), clip)
        optimizer.step()
        assert program.step(inputs) == pytest.approx(loss.item(), rel=1e-5), step
        lr, beta1, beta2, decay, clip = 0.05 / (step + 1), 0.1 * step, 0.9 - 0.3 * (step % 3), 0.2 * (step % 2), 0.1 + step
        optimizer.param_groups[0].update(lr=lr, betas=(beta1, beta2), weight_decay=decay)
        for name, value in {"lr": lr, "beta1": beta1, "beta2": beta2, "weight_decay": decay, "clip_grad_norm": clip}.items():
            assert program.library.psrt_set_scalar(program.handle, name.encode(), ctypes.c_double(value)) == 0, name
            assert program.get(name, torch.zeros(())) == torch.tensor(value), name
    for name, value in {"beta1": 1, "beta2": -0.1, "clip_grad_norm": 0, "momentum": 0.9, "beta1.log": 0}.items():
        assert program.library.psrt_set_scalar(program.handle, name.encode(), ctypes.c_double(value)) == BAD_ARGUMENT, name
    program.close()


def calls_with_bad_arguments(program, output):
    """Yields (name, call) for calls of every function of psrt.h with null pointers or negative values."""
    library, handle, no = program.library, program.handle, None
    one, minus = ctypes.c_size_t(1), ctypes.c_int64(-3)
    x = torch.zeros(4)

    def tensor(**changes):
        array = describe({"x": x})
        for field, value in changes.items():
            setattr(array[0], field, value)
        return array

    bad = [tensor(name=no), tensor(data=no), tensor(rank=-1), tensor(shape=no), tensor(dtype=77), tensor(dtype=-1), no]
    bad.append(tensor(shape=(ctypes.c_int64 * 1)(-4)))
    rank, dtype, shape = ctypes.byref(ctypes.c_int32(8)), ctypes.byref(ctypes.c_int()), (ctypes.c_int64 * 8)()
    negative = ctypes.byref(ctypes.c_int32(-1))
    for number, given in enumerate(bad):
        yield f"get_variable {number}", lambda given=given: library.psrt_get_variable(handle, given)
        yield f"set_variable {number}", lambda given=given: library.psrt_set_variable(handle, given)
        yield f"call, inputs {number}", lambda given=given: library.psrt_call(handle, b"forward", 0, given, one, no, 0)
        yield f"call, outputs {number}", lambda given=given: library.psrt_call(handle, b"forward", 0, no, 0, given, one)
        yield f"step {number}", lambda given=given: library.psrt_step(handle, given, one, no)
        yield f"backward {number}", lambda given=given: library.psrt_backward(handle, 0, given, one)
    yield "call without an entry", lambda: library.psrt_call(handle, no, 0, no, 0, no, 0)
    yield "call, slot", lambda: library.psrt_call(handle, b"forward", -1, no, 0, no, 0)
    yield "backward, slot", lambda: library.psrt_backward(handle, -1, no, 0)
    yield "set_scalar", lambda: library.psrt_set_scalar(handle, no, ctypes.c_double(1))
    rate = torch.tensor(-1.0)
    yield "set_variable lr", lambda: library.psrt_set_variable(handle, describe({"lr": rate}))
    yield "get_step", lambda: library.psrt_get_step(handle, no)
    yield "set_step", lambda: library.psrt_set_step(handle, minus)
    for what, name, d, r, s in (
        (no, b"x", dtype, rank, shape), (b"inputs", no, dtype, rank, shape), (b"inputs", b"x", no, rank, shape),
        (b"inputs", b"x", dtype, no, shape), (b"inputs", b"x", dtype, rank, no), (b"inputs", b"x", dtype, negative, shape),
        (b"outputs:none", b"x", dtype, rank, shape), (b"lunch", b"x", dtype, rank, shape),
    ):  # fmt: skip
        yield f"describe {what} {name}", lambda a=(what, name, d, r, s): library.psrt_describe(handle, *a)


def test_bad_arguments_are_a_status(tmp_path):
    program, output = make_program(tmp_path, models.gpt(loss=False), "dp=1")
    for name, call in calls_with_bad_arguments(program, output):
        assert call() == BAD_ARGUMENT, name
        assert program.library.psrt_last_error(program.handle), name
    library, handle = program.library, program.handle
    assert library.psrt_name_count(handle, None) == 0 and not library.psrt_name(handle, None, 0)
    assert library.psrt_name_count(handle, b"lunch") == 0 and not library.psrt_name(handle, b"entries", 99)
    step = ctypes.c_int64()
    assert library.psrt_set_step(handle, ctypes.c_int64(7)) == 0 and library.psrt_get_step(handle, ctypes.byref(step)) == 0
    assert step.value == 7
    program.close()
    assert library.psrt_open(b"x", None, None) == BAD_ARGUMENT and library.psrt_update(None) == BAD_ARGUMENT


def test_values_out_of_range_and_inputs_given_twice(tmp_path):
    model = models.mlp()
    program = Program(oracle.compile_model(tmp_path, model.export(tmp_path / "mlp.pt2"), "dp=1", out="mlp.so"))
    library, handle, given = program.library, program.handle, model.draw_inputs(1)
    assert torch.isfinite(torch.tensor(program.step(given)))
    for value in (1e39, 1e300, -1e-3, float("nan"), float("-inf")):
        assert library.psrt_set_scalar(handle, b"lr", ctypes.c_double(value)) == BAD_ARGUMENT, value
        assert b"expected a number from 0 to 3.40282e+38" in library.psrt_last_error(handle)
    for step in (2**63 - 1, 2**53 + 1, -1):
        assert library.psrt_set_step(handle, ctypes.c_int64(step)) == BAD_ARGUMENT, step
    assert library.psrt_set_step(handle, ctypes.c_int64(2**53)) == 0
    twice = describe({**given, "twice": given["x"]})
    twice[len(given)].name = b"x"
    assert library.psrt_step(handle, twice, ctypes.c_size_t(len(twice)), None) == BAD_ARGUMENT
    assert b'input "x" is given twice' in library.psrt_last_error(handle)
    assert torch.isfinite(torch.tensor(program.step(given)))
    program.close()


FORKED = """
import os, sys, models, capi
program, batch = capi.Program(sys.argv[1]), models.mlp().draw_inputs(1)
loss = program.step(batch)
child = os.fork()
if child == 0:
    assert program.library.psrt_update(program.handle) == 3
    try:
        program.step(batch)
    except RuntimeError as error:
        print(error, flush=True)
    program.close()
    again = capi.Program(sys.argv[1])
    os._exit(again.step(batch) != loss)
assert os.waitpid(child, 0)[1] == 0
program.step(batch)
program.close()
"""


def test_a_forked_child_is_refused(tmp_path):
    library = oracle.compile_model(tmp_path, models.mlp().export(tmp_path / "mlp.pt2"), "dp=2", out="mlp.so")
    here = {**os.environ, "PYTHONPATH": os.path.dirname(__file__)}
    done = subprocess.run([sys.executable, "-c", FORKED, library], env=here, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "open the program after fork" in done.stdout, done.stdout + done.stderr


class Wide(torch.nn.Module):
    """A model whose matmuls take most of a step."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(512, 512), torch.nn.Linear(512, 512)

    def forward(self, x, y):
        return (self.second(self.first(x).relu()) - y).square().mean()


SIGNALLED = """
import signal, sys, torch, capi
torch.manual_seed(0)
batch, losses, came = {"x": torch.randn(512, 512), "y": torch.randn(512, 512)}, [], 0
def count(*_):
    global came
    came += 1
signal.signal(signal.SIGALRM, count)
for period in (0, 0.0002):
    signal.setitimer(signal.ITIMER_REAL, period, period)
    program = capi.Program(sys.argv[1])
    losses.append([program.step(batch) for _ in range(200)])
    program.close()
signal.setitimer(signal.ITIMER_REAL, 0)
assert losses[0] == losses[1] and came >= 100, (losses, came)
"""


def test_signals_while_it_computes(tmp_path):
    """The host's signal handlers do not run on compute threads, because oneDNN uses their stack pointers as registers."""
    wide = models.Model("wide", Wide(), {"x": torch.randn(512, 512), "y": torch.randn(512, 512)})
    library = oracle.compile_model(tmp_path, wide.export(tmp_path / "wide.pt2"), "dp=1", out="wide.so")
    here = {**os.environ, "PYTHONPATH": os.path.dirname(__file__)}
    done = subprocess.run([sys.executable, "-c", SIGNALLED, library], env=here, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_outputs_of_a_step(tmp_path):
    """psrt_get_outputs returns the kept outputs before and after the update, until another entry runs."""
    model = models.gpt()
    flags = ["--micro-batches", "2", "--keep-outputs", "all", "--optimizer", FLAG]
    program = Program(oracle.compile_model(tmp_path, model.export(tmp_path / "m.pt2"), "dp=2", *flags, out="program.so"))
    parts = [model.draw_inputs(seed) for seed in (1, 2)]
    batch = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    expected = model.module(**batch)[1].detach()
    name = program.library.psrt_name
    name.restype = ctypes.c_char_p
    output = name(program.handle, b"outputs:step", 0).decode()
    assert program.library.psrt_name_count(program.handle, b"outputs:step") == 1
    found = {output: torch.empty_like(expected)}
    with pytest.raises(RuntimeError, match="call psrt_get_outputs right after psrt_step or psrt_begin_step"):
        program.get_outputs(found)
    program.begin_step(batch)
    for update in (program.update, lambda: program.step(batch)):
        found[output].fill_(7)
        program.get_outputs(found)
        torch.testing.assert_close(found[output], expected, rtol=1e-5, atol=1e-5)
        update()
        program.get_outputs(found)
    with pytest.raises(RuntimeError, match=r"must be f32 of shape \[8, 16, 96\]"):
        program.get_outputs({output: torch.empty(4, 16, 96)})
    with pytest.raises(RuntimeError, match="has no output \"x\"; compile with --keep-outputs"):
        program.get_outputs({"x": torch.empty(4)})
    program.call("evaluate", parts[0], {})
    with pytest.raises(RuntimeError, match="the outputs of a step can be read from its end to the next call of an entry"):
        program.get_outputs(found)
    program.close()


@pytest.mark.parametrize("options", [{"ranks": -1}, {"threads": -1}, {"threads": 30000}], ids=str)
def test_bad_options_are_a_status(tmp_path, options):
    program, _ = make_program(tmp_path, models.gpt(loss=False, layers=1), "dp=1")
    program.close()
    with pytest.raises(RuntimeError, match=str(*options.values())):
        Program(tmp_path / "program.so", **options)


def test_names_and_descriptions(tmp_path):
    """psrt_describe accepts every name that psrt_name lists. An input of several entries is listed once."""
    library = oracle.compile_model(tmp_path, models.gpt().export(tmp_path / "m.pt2"), "dp=2", out="program.so")
    program = Program(library)
    library, handle = program.library, program.handle
    library.psrt_name.restype = ctypes.c_char_p

    def names(what):
        return [library.psrt_name(handle, what, i) for i in range(library.psrt_name_count(handle, what))]

    assert sorted(names(b"inputs")) == [b"input_ids", b"labels"]
    entries = names(b"entries")
    assert b"evaluate" in entries
    kinds = [b"variables", b"inputs", *(b"outputs:" + entry for entry in entries)]
    for what in kinds:
        for name in names(what):
            rank, dtype, shape = ctypes.c_int32(8), ctypes.c_int(), (ctypes.c_int64 * 8)()
            assert library.psrt_describe(handle, what, name, ctypes.byref(dtype), ctypes.byref(rank), shape) == 0, name
    rank, dtype, shape = ctypes.c_int32(8), ctypes.c_int(), (ctypes.c_int64 * 8)()
    library.psrt_describe(handle, b"inputs", b"input_ids", ctypes.byref(dtype), ctypes.byref(rank), shape)
    assert (dtype.value, rank.value, list(shape[:2])) == (4, 2, [4, 16])
    program.close()


def test_the_callers_openmp_threads_stay(tmp_path):
    """The runtime runs each matmul on one OpenMP thread, but does not change the number of OpenMP threads of the host process."""
    model = models.gpt(loss=False)
    program, output = make_program(tmp_path, model, "dp=1")
    batch = model.draw_inputs(1)
    ours = torch.empty_like(model.module(**batch))
    openmp = ctypes.CDLL("libgomp.so.1")
    before = openmp.omp_get_max_threads()
    openmp.omp_set_num_threads(3)
    program.call("forward", batch, {output: ours}, 0)
    after = openmp.omp_get_max_threads()
    openmp.omp_set_num_threads(before)
    assert after == 3
