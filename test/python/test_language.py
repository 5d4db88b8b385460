"""Models of language with padded samples train as in PyTorch: losses, gradients, updates; what their attention became.

Samples have uneven lengths, over ranks and micro-batches, and so have the labels that count.
"""
import functools
import re

import language
import models
import oracle
import pytest
import torch
from conftest import tools_folder
from torch.nn.attention import SDPBackend, sdpa_kernel

# What attention became, of each of the model's own in order. A mask that is added and finite stays one, because a
# query that sees no key weighs all alike under it; where it is the same for all queries, it is one row.
FORMS = {
    "bert": ["added padding"] * 2,
    "bart": ["added padding"] * 2 + ["causal", "added padding"] * 2,
    "neox": ["causal, padding"] * 2,
    "opt": ["added mask"] * 2,
}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Tensors are so small that PyTorch's threads would only wait for one another."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@functools.cache
def zoo(name):
    return language.MODELS[name]()


def archive_of(name, folder):
    path = folder / f"{name}.pt2"
    return path if path.exists() else zoo(name).export(path)


@functools.cache
def reference(name, micro_batches, optimizer, steps):
    """(batches, what PyTorch makes of them). Its fused attention gives queries that see no key another gradient."""
    batches = oracle.draw_batches(zoo(name), micro_batches, steps)
    with sdpa_kernel(SDPBackend.MATH):
        return batches, oracle.train_in_torch(zoo(name), batches, oracle.OPTIMIZERS[optimizer][1], steps)


@pytest.mark.parametrize("mesh", ["dp=1", "dp=2", "tp=2", "dp=2,tp=2"])
@pytest.mark.parametrize("micro_batches,optimizer,steps", [(1, "adamw", 8), (4, "sgd", 4)])
@pytest.mark.parametrize("name", language.MODELS)
def test_trains_as_in_pytorch(tmp_path, exports, name, micro_batches, optimizer, steps, mesh):
    batches, expected = reference(name, micro_batches, optimizer, steps)
    flag, _, tolerance = oracle.OPTIMIZERS[optimizer]
    found = oracle.train_compiled(tmp_path, archive_of(name, exports), batches, mesh, micro_batches, flag, steps=steps)
    comparison = oracle.compare(expected, found, tolerance)
    print(comparison)
    assert comparison.failures() == []


@pytest.mark.parametrize("name", language.MODELS)
def test_little_is_left_out(name):
    """Only parameters that cannot matter, such as an attention's key bias, are left out of the comparison."""
    _, expected = reference(name, 1, "adamw", 8)
    compared = sum(p.numel() for p in expected.before.values())
    assert sum(oracle.left_out(expected).values()) < 0.02 * compared, oracle.left_out(expected)


@pytest.mark.parametrize("name", language.MODELS)
def test_padding_is_uneven(name):
    """Between the halves of a batch, which are ranks, and between micro-batches; in front only where asked for."""
    real = oracle.draw_batches(zoo(name), 4, 1)["attention_mask"]
    counts = real.reshape(4, 2, -1).sum(-1)
    assert (counts[:, 0] > counts[:, 1]).all() and counts.sum(1).unique().numel() > 1
    assert (real.sum(1) >= language.SHORTEST).all() and bool((real[:, 0] == 0).any()) == zoo(name).left


@pytest.mark.parametrize("name", language.MODELS)
def test_what_attention_became(tmp_path, exports, name):
    program = tmp_path / "program"
    said = oracle.run([tools_folder() / "ps-compile", archive_of(name, exports), "-o", program, "--mesh", "tp=2",
                       "--explain"], tmp_path)  # fmt: skip
    rows = re.findall(r"^  \S+ \(\S+\)  +(.*)$", said.split("\nattention\n")[1].split("\n\n")[0], re.M)
    assert rows == FORMS[name], said


@pytest.mark.parametrize("name", language.MODELS)
def test_evaluation_is_that_of_eval_mode(tmp_path, name, mesh="dp=2,tp=2"):
    """Exported in training with dropouts, which evaluation leaves out."""
    model = language.MODELS[name](dropout=0.2)
    inputs = model.draw_inputs(3)
    found = oracle.evaluate(tmp_path, model.export(tmp_path / "model.pt2"), inputs, mesh)
    with torch.no_grad():
        trained = models.first_loss(model.module(**inputs)).item()
        expected = models.first_loss(model.module.eval()(**inputs)).item()
    assert found == pytest.approx(expected, rel=1e-5) and found != pytest.approx(trained, rel=1e-4)


@pytest.mark.parametrize("name", ["bert", "neox", "opt"])  # BART's own mask of the decoder fails in torch.export
def test_attention_that_is_written_out(tmp_path, name):
    """Hugging Face's "eager": the same gradients, from the same attention ops where its masks say the same."""
    model = language.MODELS[name](attention="eager")
    inputs = model.draw_inputs(5)
    loss, exact = oracle.loss_and_gradients(model.module, inputs, torch.float64)
    _, single = oracle.loss_and_gradients(model.module, inputs, torch.float32)
    found, gradients = oracle.first_step(tmp_path, model.export(tmp_path / "model.pt2"), inputs, mesh="dp=2")
    assert found == pytest.approx(loss, rel=1e-5)
    ref = oracle.Reference([loss], single, exact, {}, {}, oracle.aliases_of(model.module))
    errors = oracle.gradient_errors(ref, gradients)
    assert max(errors.values()) <= 1, errors


def test_all_of_a_sample_is_padding(tmp_path, exports):
    """Such a sample of BERT's weighs all its tokens alike."""
    model = zoo("bert")
    inputs = model.draw_inputs(5)
    inputs["attention_mask"][2] = 0
    inputs["labels"][2] = inputs["input_ids"][2]
    with sdpa_kernel(SDPBackend.MATH):
        loss, exact = oracle.loss_and_gradients(model.module, inputs, torch.float64)
        _, single = oracle.loss_and_gradients(model.module, inputs, torch.float32)
    found, gradients = oracle.first_step(tmp_path, archive_of("bert", exports), inputs, mesh="dp=2,tp=2")
    assert found == pytest.approx(loss, rel=1e-5)
    ref = oracle.Reference([loss], single, exact, {}, {}, oracle.aliases_of(model.module))
    assert max(oracle.gradient_errors(ref, gradients).values()) <= 1
