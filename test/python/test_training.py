"""Compiled training equals PyTorch in every case of the table (cases.py), and the comparison detects every mutant."""
import dataclasses

import cases
import lanes
import oracle
import pytest

pytestmark = pytest.mark.usefixtures("one_thread")


def is_quick(case):
    """Returns whether a case is in the quick lane. These cases are each model with each importer on one rank."""
    return (case.mesh, case.micro_batches, case.optimizer) == ("dp=1", 1, "adamw")


@pytest.mark.parametrize("case", lanes.cover(cases.CASES, is_quick))
def test_equals_pytorch(tmp_path, exports, case):
    comparison = oracle.check_case(tmp_path, exports, case)
    print(comparison)
    assert comparison.failures() == []


@pytest.mark.cover(1)
@pytest.mark.parametrize("mesh", ["tp=2", "tp=4", "dp=2,tp=2"])
@pytest.mark.parametrize("name", cases.ODD)
def test_sizes_that_do_not_divide_equal_pytorch(tmp_path, name, mesh):
    model, micro_batches = cases.ODD[name](), 2
    flag, make, tolerance = oracle.OPTIMIZERS["adamw"]
    batches = oracle.draw_batches(model, micro_batches)
    result = oracle.train_compiled(
        tmp_path, model.export(tmp_path / "model.pt2"), batches, mesh, micro_batches, flag,
        ("--sharding-policy", "megatron"),
    )  # fmt: skip
    ref = oracle.train_in_torch(model, batches, make)
    assert oracle.compare(ref, result, tolerance).failures() == []


@pytest.mark.parametrize("name", cases.MODELS)
def test_the_comparison_omits_few_parameters(name):
    """The comparison omits only parameters that cannot change the loss, such as the key bias of attention."""
    ref = oracle.reference(name, 1, "adamw")
    compared = sum(p.numel() for p in ref.before.values())
    assert sum(oracle.left_out(ref).values()) < 0.02 * compared, oracle.left_out(ref)


@pytest.mark.parametrize("mutant", cases.MUTANTS, ids=lambda m: m.name)
def test_mutant_is_detected(tmp_path, exports, mutant):
    ref = oracle.reference("gpt", 1, "adamw")
    batches = oracle.draw_batches(oracle.zoo("gpt"), 1)
    archive = oracle.export("gpt", exports)
    result = oracle.train_compiled(tmp_path, archive, batches, "dp=1", 1, mutant.optimizer, mutant.flags)
    if mutant.change:
        result = dataclasses.replace(result, gradients=mutant.change(result.gradients))
    assert oracle.compare(ref, result, oracle.OPTIMIZERS["adamw"][2]).failures() != []
