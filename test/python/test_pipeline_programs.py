"""Executables of pipelines: equal to PyTorch in every layout, the same bits under every schedule and over every transport."""
import itertools

import cases
import language
import models
import oracle
import pytest
import torch



def is_in_cover(case):
    """Of each model a schedule a mesh, once: scripts/compare-with-pytorch has all combinations."""
    model, mesh = cases.CUT.index(case.model), cases.PIPELINE_MESHES[case.chunks].index(case.mesh)
    schedule = cases.SCHEDULES[case.chunks].index(case.schedule)
    micro_batches = (2, 8)[(model + mesh + schedule) // 3 % 2]
    return (case.chunks > 1 or (model + mesh + schedule) % 3 == 0) and case.micro_batches == micro_batches


COVER = list(filter(is_in_cover, cases.PIPELINES))


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_the_cover_has_everything():
    for field in ("model", "mesh", "schedule", "micro_batches"):
        assert {getattr(c, field) for c in COVER} == {getattr(c, field) for c in cases.PIPELINES}
    pairs = {(c.model, c.schedule) for c in COVER}
    assert pairs == set(itertools.product(cases.CUT, [s for some in cases.SCHEDULES.values() for s in some]))


@pytest.mark.parametrize("case", COVER, ids=str)
def test_equals_pytorch(tmp_path, exports, case):
    comparison = oracle.check_case(tmp_path, exports, case)
    print(comparison)
    assert comparison.failures() == []


def bits(result):
    """All that a run leaves."""
    return {"losses": torch.tensor(result.losses), **result.after, **{f"grad.{n}": g for n, g in result.gradients.items()}}


def differing(a, b):
    return [name for name in a if not torch.equal(a[name], b[name])] + sorted(a.keys() ^ b.keys())


def train(folder, archive, model, mesh, schedule, chunks, *flags, micro_batches=4, run_flags=()):
    folder.mkdir(exist_ok=True)
    batches = oracle.draw_batches(model, micro_batches)
    return oracle.train_compiled(folder, archive, batches, mesh, micro_batches, oracle.OPTIMIZERS["adamw"][0],
                                 ("--schedule", schedule, "--num-chunks", chunks, *flags), run_flags=run_flags)  # fmt: skip


@pytest.mark.parametrize("name", ["gpt2_deep", "unet"])
@pytest.mark.parametrize("mesh, chunks, schedules", [
    ("pp=2", 1, ["gpipe", "1f1b", "zb-h1"]), ("dp=2,pp=2", 1, ["gpipe", "zb-h1"]), ("pp=2", 2, ["interleaved"])])  # fmt: skip
def test_schedules_over_the_same_stages_give_the_same_bits(tmp_path, exports, name, mesh, chunks, schedules):
    archive, found = oracle.export(name, exports), []
    for schedule in schedules:
        found.append(bits(train(tmp_path / schedule, archive, oracle.zoo(name), mesh, schedule, chunks)))
    again = bits(train(tmp_path / "again", archive, oracle.zoo(name), mesh, schedules[0], chunks))
    for other in [*found[1:], again]:
        assert differing(found[0], other) == []


@pytest.fixture(scope="module", params=[models.gpt_dropout, lambda: language.bart(dropout=0.1)], ids=["gpt", "bart"])
def with_dropout(request, tmp_path_factory):
    """A model's file, samples, and what one rank makes of them."""
    folder = tmp_path_factory.mktemp("dropout")
    model = request.param()
    archive, batches = model.export(folder / "model.pt2"), oracle.draw_batches(model, 4)
    return archive, batches, oracle.train_compiled(folder, archive, batches, "dp=1", 4, oracle.OPTIMIZERS["sgd"][0])


@pytest.mark.parametrize("mesh, schedule, chunks", [("pp=2", "1f1b", 1), ("dp=2,pp=2", "zb-h1", 1), ("pp=2", "interleaved", 2)])
def test_dropout_equals_one_rank(tmp_path, with_dropout, mesh, schedule, chunks):
    """The same numbers are drawn wherever a layer lies, in either half of its backward."""
    archive, batches, whole = with_dropout
    cut = oracle.train_compiled(tmp_path, archive, batches, mesh, 4, oracle.OPTIMIZERS["sgd"][0],
                                ("--schedule", schedule, "--num-chunks", chunks))  # fmt: skip
    assert cut.losses == pytest.approx(whole.losses, rel=1e-5)
    for name, gradient in whole.gradients.items():
        if gradient.dim():
            assert (cut.gradients[name] - gradient).norm() <= 1e-4 * gradient.norm() + 1e-7, name
