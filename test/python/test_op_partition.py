"""Compares every op split over ranks with the same op on one rank, in the reference evaluator.

The cases are those of test_op_gradients. Each is planned with some dims of its trained tensors split over two or three ranks.
With three ranks, shards have padding, which the evaluator fills with NaN.
"""
import json
import subprocess

import pytest
import torch
from conftest import tools_folder
from safetensors.torch import load_file
from test_op_gradients import CASES, make_trained, run

PLAN = ["-ps-propagate-shardings", "-ps-find-segments", "-ps-partition"]
HEADS = {"a": {"1": ["tp"]}, "b": {"1": ["tp"]}, "c": {"1": ["tp"]}}
BATCH = {"a": {"0": ["tp"]}, "b": {"0": ["tp"]}, "c": {"0": ["tp"]}}

# (case, ranks, {trained tensor: {dim: axes}})
SPLITS = [
    ("gelu_tanh", 2, {"a": {"1": ["tp"]}}), ("mul", 3, {"a": {"1": ["tp"]}, "b": {"1": ["tp"]}}),
    ("reduce_sum", 3, {"a": {"2": ["tp"]}}), ("reduce_max", 3, {"a": {"1": ["tp"]}}),
    ("softmax", 2, {"a": {"1": ["tp"]}}), ("softmax", 3, {"a": {"1": ["tp"]}}), ("softmax", 3, {"a": {"0": ["tp"]}}),
    ("log_softmax", 2, {"a": {"1": ["tp"]}}), ("log_softmax", 3, {"a": {"1": ["tp"]}}),
    ("layer_norm", 2, {"a": {"1": ["tp"]}}), ("layer_norm", 3, {"a": {"1": ["tp"]}}),
    ("layer_norm", 3, {"a": {"0": ["tp"]}}),
    ("cross_entropy", 2, {"a": {"1": ["tp"]}}), ("cross_entropy", 2, {"a": {"0": ["tp"]}}),
    ("cross_entropy_smoothed", 2, {"a": {"1": ["tp"]}}), ("cross_entropy_lse", 3, {"a": {"1": ["tp"]}}),
    ("embedding", 2, {"a": {"0": ["tp"]}}), ("embedding", 4, {"a": {"0": ["tp"]}}),
    ("embedding", 2, {"a": {"1": ["tp"]}}), ("embedding_padding", 4, {"a": {"0": ["tp"]}}),
    ("contract_linear", 2, {"b": {"0": ["tp"]}}), ("contract_linear", 3, {"b": {"1": ["tp"]}}),
    ("contract_bias", 2, {"b": {"0": ["tp"]}, "c": {"0": ["tp"]}}), ("contract_bias", 2, {"b": {"1": ["tp"]}}),
    ("contract_linear", 2, {"a": {"0": ["tp"]}}), ("contract_batch", 2, {"a": {"0": ["tp"]}, "b": {"0": ["tp"]}}),
    ("attention_causal", 2, HEADS), ("attention_causal", 2, BATCH), ("attention_grouped", 2, HEADS),
    ("attention_one_group", 3, {"a": {"1": ["tp"]}}), ("attention_padding", 2, BATCH), ("attention_bias", 2, HEADS),
]
DROPOUT = ("%y = ps.dropout %a p 0.5 {ps.key = 1 : i64} : {y}", {"a": (6, 4, 5)}, lambda a: a, False, {})
ATTENTION_DROPOUT = (
    "%y, %lse = ps.attention %a, %b, %c causal scale 0.5 {dropout = 0.5 : f64, ps.key = 1 : i64} : "
    "({a}, {b}, {c}) -> ({y}, tensor<2x4x4xf64>)",
    {"a": (2, 4, 4, 3), "b": (2, 4, 4, 3), "c": (2, 4, 4, 3)}, lambda a, b, c: a, False, {})
RANDOM = {"dropout": DROPOUT, "attention_dropout": ATTENTION_DROPOUT}
RANDOM_SPLITS = [("dropout", 2, {"a": {"0": ["tp"]}}), ("dropout", 3, {"a": {"1": ["tp"]}}),
                 ("dropout", 2, {"a": {"2": ["tp"]}}), ("attention_dropout", 2, HEADS),
                 ("attention_dropout", 2, BATCH)]


def tool(name, *arguments):
    done = subprocess.run([tools_folder() / name, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def has_partition():
    path = tools_folder() / "ps-opt"
    return path.exists() and "ps-partition" in tool("ps-opt", "--help")


pytestmark = pytest.mark.skipif(not has_partition(), reason="this ps-opt has no ps-partition")


def check_split(name, mesh, split, tmp_path):
    """Compares the op on one rank with the op on `mesh`. Returns the text of the planned module."""
    ops, shapes, reference, positive, inputs = {**CASES, **RANDOM}[name]
    trained = make_trained(shapes, positive)
    whole, _ = run(tmp_path, ops, trained, inputs, reference(*trained.values()))
    policy, placed, plan, out = (tmp_path / file for file in ("policy.json", "m.mlir", "c.mlir", "split.safetensors"))
    policy.write_text(json.dumps(split))
    text = tool("ps-opt", tmp_path / "b.mlir", "-ps-set-mesh=mesh=tp=1")
    placed.write_text(text.replace('"tp" = 1 : tensor', mesh))
    tool("ps-opt", placed, f"-ps-seed-shardings=policy={policy}", *PLAN, "-o", plan)
    tool("ps-run", plan, "--entry", "micro_batch", "--inputs", tmp_path / "in.safetensors", "--outputs", out)
    parts = load_file(out)
    for key in ["loss.sum", *(f"{key}.grad" for key in trained)]:
        torch.testing.assert_close(parts[key], whole[key], rtol=1e-6, atol=1e-7)
    return plan.read_text()


@pytest.mark.part(2)
@pytest.mark.parametrize("name,ranks,split", SPLITS + RANDOM_SPLITS)
def test_split(name, ranks, split, tmp_path):
    assert '{"tp"}' in check_split(name, f'"tp" = {ranks} : tensor', split, tmp_path), "nothing is split"


@pytest.mark.part(3)
@pytest.mark.parametrize("axes", [["pad.7"], ["tp", "pad.7"]], ids="-".join)
@pytest.mark.parametrize("name,split", {(name, json.dumps(split)): None for name, _, split in SPLITS + RANDOM_SPLITS}, ids=str)
def test_padded(name, split, axes, tmp_path):
    """Pads dims, whose sizes are not multiples of 7, to a multiple of 7, on one rank and split over two."""
    padded = {tensor: dict.fromkeys(dims, axes) for tensor, dims in json.loads(split).items()}
    text = check_split(name, f'"tp" = {len(axes)} : tensor, "pad.7" = 7 : multiple', padded, tmp_path)
    assert "ps.global = " in text or "ps.select" in text, "nothing is padded"
