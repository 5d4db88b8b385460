"""In-place writes, directly and through views: loss and gradients equal PyTorch's, or the write is refused."""
import pytest
import torch
from conftest import tools_folder
from oracle import compile_model, first_step, read_losses, run
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F

ROWS, IN, OUT = 6, 5, 7


def column(q, y):
    q[:, 0] = 0
    return q


def columns(q, y):
    q[:, 1:3] = y[:, 1:3]
    return q


def last_column(q, y):
    q[:, -1] += y[:, 3] * q[:, 4]
    return q


def every_second(q, y):
    q[:, ::2] = q[:, ::2] * 3 + y[:, 1::2].sum(1, keepdim=True)
    return q


def flat_view(q, y):
    v = q.view(-1)
    v.add_(1.0)
    v.mul_(2)
    return q


def view_read_after(q, y):
    v = q[:, 2:5]
    q.mul_(3.0)
    return F.pad(v, (0, OUT - 3)) * y


def view_of_view(q, y):
    block = q.t()[1:4]
    block[1].mul_(y[:, 2])
    block.view_as(block)[0].add_(q[:, 2])
    return q


def two_views(q, y):
    a, b = q[:, :4], q[:, 2:]
    a.mul_(y[:, :4])
    b.add_(a.sum(1, keepdim=True))
    return q + F.pad(a, (0, 3))


def out_of_functions(q, y):
    """Uses out=, which PyTorch allows only without gradients."""
    with torch.no_grad():
        made = torch.empty_like(q)
        torch.mul(q.detach(), 2, out=made)
        torch.pow(made.abs() + 1, y.detach().abs(), out=made)
        torch.add(made[:, :2], 1, out=made[:, 3:5])
    return q * made


def transposed(q, y):
    q.t().mul_(torch.arange(float(OUT))[:, None] + 1)
    return q


def permuted(q, y):
    cube = q[:, :6].unflatten(1, (2, 3))
    cube.permute(2, 0, 1)[1].copy_(y[:, :2])
    return q


def unsqueezed(q, y):
    q.unsqueeze(1)[:, 0, 1:].squeeze().neg_()
    return q


def masked(q, y):
    q[y > 0] = 0.5
    return q


def mask_of_rows(q, y):
    q[y[:, 0] > 0] = -0.25
    return q


def filled(q, y):
    z = torch.zeros_like(q)
    z[:, :3] = q[:, :3]
    z[:, 3:] = y[:, 3:] * q[:, 3:]
    return z


def chained(q, y):
    return q.add_(1).mul_(y).clamp_(min=-0.5)


def same_dtype(q, y):
    v = q.to(torch.float32)
    v.mul_(2.0)
    return q * y


def contiguous(q, y):
    v = q.contiguous()
    v[:, 1].zero_()
    return q


def copied(q, y):
    v = q.t().contiguous()
    v.mul_(5)
    return q + v.t()


def in_no_grad(q, y):
    scale = torch.ones(OUT)
    with torch.no_grad():
        scale[2:4].add_(y[0, :2].abs())
    return q * scale


WRITES = [
    column, columns, last_column, every_second, flat_view, view_read_after, view_of_view, two_views, out_of_functions, transposed, permuted,
    unsqueezed, masked, mask_of_rows, filled, chained, same_dtype, contiguous, copied, in_no_grad,
]  # fmt: skip


class Model(nn.Module):
    def __init__(self, write):
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(IN, OUT)
        self.write = write

    def forward(self, x, y):
        return F.mse_loss(self.write(self.linear(x).clone(), y), y)


def draw():
    generator = torch.Generator().manual_seed(3)
    return {"x": torch.randn(ROWS, IN, generator=generator), "y": torch.randn(ROWS, OUT, generator=generator)}


def save(folder, write, decomposed):
    program = torch.export.export(Model(write), (), draw())
    if decomposed:
        program = program.run_decompositions({})
    torch.export.save(program, folder / "model.pt2")
    return folder / "model.pt2"


@pytest.mark.part(3)
@pytest.mark.cover(1)
@pytest.mark.parametrize("decomposed", [False, True], ids=["exported", "decomposed"])
@pytest.mark.parametrize("write", WRITES, ids=lambda w: w.__name__)
def test_write(tmp_path, write, decomposed):
    data, model = draw(), Model(write)
    loss = model(**data)
    loss.backward()
    found, gradients = first_step(tmp_path, save(tmp_path, write, decomposed), data)
    assert found == pytest.approx(float(loss.detach()), rel=1e-5)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.grad, rtol=1e-5, atol=1e-6)


class Averaging(nn.Module):
    """A model that changes a buffer in every step by several writes."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(IN, OUT)
        self.register_buffer("mean", torch.zeros(OUT))

    def forward(self, x, y):
        self.mean.mul_(0.5).add_(1)
        self.mean[2:4].mul_(0.9)
        return F.mse_loss(self.linear(x) + self.mean, y)


@pytest.mark.parametrize("decomposed", [False, True], ids=["exported", "decomposed"])
def test_buffer(tmp_path, decomposed):
    model, data = Averaging(), draw()
    program = torch.export.export(Averaging(), (), data)
    torch.export.save(program.run_decompositions({}) if decomposed else program, tmp_path / "model.pt2")
    expected = []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        loss = model(**data)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        expected.append(float(loss.detach()))
    save_file({name: torch.cat([value] * 3) for name, value in data.items()}, tmp_path / "data.safetensors")
    compiled = compile_model(tmp_path, tmp_path / "model.pt2", "dp=1", "--optimizer", "sgd(lr=0.1)")
    run([compiled, "--data", "data.safetensors", "--losses", "losses.txt", "--export-weights", "w.safetensors"], tmp_path)
    assert read_losses(tmp_path / "losses.txt") == pytest.approx(expected, rel=1e-5)
    torch.testing.assert_close(load_file(tmp_path / "w.safetensors")["mean"], model.mean)


def maybe_a_view(q, y):
    v = q.t().reshape(-1)  # a copy in this case; for other strides, PyTorch returns a view
    v.mul_(2)
    return q * y


def diagonal(q, y):
    v = q[:2, :2].clone()
    v.diagonal().mul_(2)
    return v.sum() + q * y


def einsum(q, y):
    v = q[:2, :2].clone()
    torch.einsum("ii->i", v).mul_(2)
    return v.sum() + q * y


def unfolded(q, y):
    v = q.clone()
    v.unfold(1, 2, 2)[:, 1].mul_(2)  # only the write uses the view
    return v * y


@pytest.mark.parametrize("write", [unfolded], ids=lambda w: w.__name__)
def test_view_by_an_unknown_op(tmp_path, write):
    archive = save(tmp_path, write, False)
    said = run([tools_folder() / "ps-compile", archive, "-o", "program"], cwd=tmp_path, expect=1)
    assert "aten.unfold.default: 1 use" in said


@torch.library.custom_op("parashard_test::fill", mutates_args={"target"})
def fill(target: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    target.copy_(value)
    return value.sum()


@fill.register_fake
def _(target, value):
    return value.new_empty(())


def by_a_list(q, y):
    torch._foreach_mul_([q], 0.5)
    return q


def by_two_outs(q, y):
    largest, where = torch.zeros(ROWS, 1), torch.zeros(ROWS, 1, dtype=torch.long)
    torch.topk(y, 1, out=(largest, where))
    return q * largest


def by_a_custom_op(q, y):
    target = torch.zeros(ROWS, OUT)
    fill(target, y)
    return q * target


def in_no_grad_by_an_unknown_op(q, y):
    target = torch.zeros(ROWS, OUT)
    with torch.no_grad():
        target.copy_(torch.special.bessel_j0(y))
    return q * target


UNKNOWN = {
    by_a_list: "aten._foreach_mul_.Scalar", by_two_outs: "aten.topk.values", by_a_custom_op: "parashard_test.fill.default",
    in_no_grad_by_an_unknown_op: "aten.special_bessel_j0.default",
}  # fmt: skip


@pytest.mark.parametrize("write", UNKNOWN, ids=lambda w: w.__name__)
def test_write_by_an_unknown_op(tmp_path, write):
    archive = save(tmp_path, write, False)
    said = run([tools_folder() / "ps-compile", archive, "-o", "program"], cwd=tmp_path, expect=1)
    assert f"{UNKNOWN[write]}: 1 use" in said and "test_in_place.py:" in said


@pytest.mark.parametrize("write", [maybe_a_view, diagonal, einsum], ids=lambda w: w.__name__)
def test_refused(tmp_path, write):
    archive = save(tmp_path, write, False)
    said = run([tools_folder() / "ps-compile", archive, "-o", "program"], cwd=tmp_path, expect=1)
    assert "may or may not share memory" in said and "clone()" in said
    assert "test_in_place.py:" in said
    assert not (tmp_path / "program").exists()
