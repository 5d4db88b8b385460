"""Dropout masks: a model returns them as outputs, which the test reads through the C API.

A mask is a function of the run's seed, op, step, micro-batch and element. Masks are equal on every layout, and otherwise different.
"""
import itertools
import json

import capi
import models
import oracle
import pytest
import torch
import torch.nn.functional as F
from torch import nn

P, LENGTH, HEADS, FEATURES = 0.1, 8, 2, 8
# A policy that splits w, and therefore the features of dropout's operand and the heads of attention.
SPLIT = {"w": {"0": ["tp"]}}


class Masks(nn.Module):
    """Two dropouts and two attentions with dropout. Their outputs are zero exactly where elements are dropped."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(HEADS * FEATURES))

    def forward(self, x, one):
        """x: [B, T, H D] without zeros; one: [B, H, T, T], the identity matrix as values, so that attention returns its probabilities."""
        x = x * self.w
        heads = x.view(-1, LENGTH, HEADS, FEATURES).transpose(1, 2)
        drop, attend = lambda: F.dropout(x, P), lambda: F.scaled_dot_product_attention(heads, heads, one, dropout_p=P)
        return {"first": drop(), "second": drop(), "third": attend(), "fourth": attend()}


def inputs(batch):
    return {"x": torch.ones(batch, LENGTH, HEADS * FEATURES), "one": torch.eye(LENGTH).repeat(batch, HEADS, 1, 1)}


def open_program(folder, mesh, batch, policy=None, seed=0):
    folder.mkdir()
    archive = models.Model("masks", Masks().train(), inputs(batch)).export(folder / "masks.pt2")
    flags = ["--loss", "none", "--differentiate", "first", "--optimizer", "sgd(lr=0)"]
    if policy:
        (folder / "policy.json").write_text(json.dumps(policy))
        flags += ["--sharding-policy", folder / "policy.json"]
    return capi.Program(oracle.compile_model(folder, archive, mesh, *flags, out="masks.so"), seed=seed)


def masks(program, batch):
    """Runs one forward. Returns the dropped elements per layer, as bool tensors."""
    outputs = {name: torch.full((batch, LENGTH, HEADS * FEATURES), float("nan")) for name in ("first", "second")}
    outputs |= {name: torch.full((batch, HEADS, LENGTH, LENGTH), float("nan")) for name in ("third", "fourth")}
    program.call("forward", inputs(batch), outputs)
    assert all(value.isfinite().all() for value in outputs.values())
    return {name: value == 0 for name, value in outputs.items()}


def same(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)


@pytest.fixture(scope="module")
def one_rank(tmp_path_factory):
    """The masks of steps 0 and 1 on one rank, with 8 samples per step."""
    program = open_program(tmp_path_factory.mktemp("masks") / "one", "dp=1", 8)
    steps = []
    for _ in range(2):
        steps.append(masks(program, 8))
        program.update()
    program.close()
    return steps


def test_each_layer_and_each_step_has_its_own_mask(one_rank):
    every = {(name, step): mask.flatten() for step, drawn in enumerate(one_rank) for name, mask in drawn.items()}
    for (a, first), (b, second) in itertools.combinations(every.items(), 2):
        # Two independent masks both drop a fraction P^2 of the elements.
        both = (first & second).float().mean()
        assert abs(both - P * P) < 0.012, (a, b)
    for key, mask in every.items():
        assert abs(mask.float().mean() - P) < 0.03, key


@pytest.mark.parametrize("mesh,policy", [("dp=2", None), ("dp=4", None), ("tp=2", SPLIT), ("dp=2,tp=2", SPLIT)])
def test_every_layout_draws_the_same_masks(tmp_path, one_rank, mesh, policy):
    program = open_program(tmp_path / "many", mesh, 8, policy)
    for expected in one_rank:
        assert same(masks(program, 8), expected)
        program.update()
    program.close()


def test_micro_batches_draw_the_masks_of_their_samples(tmp_path, one_rank):
    program = open_program(tmp_path / "parts", "dp=2", 2)
    for expected in one_rank:
        parts = [masks(program, 2) for _ in range(4)]
        assert same({name: torch.cat([part[name] for part in parts]) for name in expected}, expected)
        program.update()
    program.close()


def test_two_runs_draw_the_same_masks_and_another_seed_draws_others(tmp_path, one_rank):
    for seed in (0, 1):
        program = open_program(tmp_path / str(seed), "dp=1", 8, seed=seed)
        drawn = masks(program, 8)
        assert all(torch.equal(drawn[name], one_rank[0][name]) == (seed == 0) for name in drawn)
        program.close()
