"""Language models with padded samples: the forms of their attention, and their evaluation.

cases.py compares their training with PyTorch. There, the lengths of samples and the numbers of labels that are not ignored differ
between ranks and between micro-batches.
"""
import re

import language
import models
import oracle
import pytest
import torch
from conftest import tools_folder

# The form of each attention of a model, in order. A mask that adds finite numbers is not converted to a bool mask: with it, a
# query that attends to no key gives all keys the same weight. If such a mask is equal for all queries, it has one row.
FORMS = {
    "bert": ["additive padding"] * 2,
    "bart": ["additive padding"] * 2 + ["causal", "additive padding"] * 2,
    "neox": ["causal, padding"] * 2,
    "opt": ["additive mask"] * 2,
    "qwen": ["causal, padding", "causal, window 4, padding"],
}


@pytest.mark.parametrize("name", language.MODELS)
def test_padding_is_uneven(name):
    """Padding differs between the halves of a batch (ranks) and between micro-batches. Padding is at the beginning only with `left`."""
    real = oracle.draw_batches(oracle.zoo(name), 4, 1)["attention_mask"]
    counts = real.reshape(4, 2, -1).sum(-1)
    assert (counts[:, 0] > counts[:, 1]).all() and counts.sum(1).unique().numel() > 1
    assert (real.sum(1) >= language.SHORTEST).all() and bool((real[:, 0] == 0).any()) == oracle.zoo(name).left


@pytest.mark.part(2)
@pytest.mark.parametrize("name", language.MODELS)
def test_forms_of_attention(tmp_path, exports, name):
    program = tmp_path / "program"
    said = oracle.run([tools_folder() / "ps-compile", oracle.export(name, exports), "-o", program, "--mesh", "tp=2",
                       "--explain"], tmp_path)  # fmt: skip
    rows = re.findall(r"^  \S+ \(\S+\)  +(.*)$", said.split("\nattention\n")[1].split("\n\n")[0], re.M)
    assert rows == FORMS[name], said


@pytest.mark.part(2)
@pytest.mark.parametrize("name", ["bert", "bart", "neox", "opt"])
def test_evaluation_is_that_of_eval_mode(tmp_path, name, mesh="dp=2,tp=2"):
    """The model is exported in training mode with dropout, which evaluation omits."""
    model = language.MODELS[name](dropout=0.2)
    inputs = model.draw_inputs(3)
    found = oracle.evaluate(tmp_path, model.export(tmp_path / "model.pt2"), inputs, mesh)
    with torch.no_grad():
        trained = models.first_loss(model.module(**inputs)).item()
        expected = models.first_loss(model.module.eval()(**inputs)).item()
    assert found == pytest.approx(expected, rel=1e-5) and found != pytest.approx(trained, rel=1e-4)


@pytest.mark.part(3)
@pytest.mark.parametrize("name", ["bert", "neox", "opt"])  # BART's decoder mask fails in torch.export
def test_attention_that_is_written_out(tmp_path, name):
    """Hugging Face's "eager" attention is recognized. Its gradients equal PyTorch's."""
    model = language.MODELS[name](attention="eager")
    inputs = model.draw_inputs(5)
    loss, exact = oracle.loss_and_gradients(model.module, inputs, torch.float64)
    _, single = oracle.loss_and_gradients(model.module, inputs, torch.float32)
    found, gradients = oracle.first_step(tmp_path, model.export(tmp_path / "model.pt2"), inputs, mesh="dp=2")
    assert found == pytest.approx(loss, rel=1e-5)
    ref = oracle.Reference([loss], single, exact, {}, {}, oracle.aliases_of(model.module))
    errors = oracle.gradient_errors(ref, gradients)
    assert max(errors.values()) <= 1, errors


def test_a_sample_of_padding_only(tmp_path, exports):
    """In such a sample of BERT, attention gives all tokens the same weight."""
    model = oracle.zoo("bert")
    inputs = model.draw_inputs(5)
    inputs["attention_mask"][2] = 0
    inputs["labels"][2] = inputs["input_ids"][2]
    loss, exact = oracle.loss_and_gradients(model.module, inputs, torch.float64)
    _, single = oracle.loss_and_gradients(model.module, inputs, torch.float32)
    found, gradients = oracle.first_step(tmp_path, oracle.export("bert", exports), inputs, mesh="dp=2,tp=2")
    assert found == pytest.approx(loss, rel=1e-5)
    ref = oracle.Reference([loss], single, exact, {}, {}, oracle.aliases_of(model.module))
    assert max(oracle.gradient_errors(ref, gradients).values()) <= 1
