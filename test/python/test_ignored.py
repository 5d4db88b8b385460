"""Rows of a cross entropy with ignored labels contribute nothing, even if their logits are infinite or NaN."""
import joined
import op_cases
import pytest
import torch
import torch.nn.functional as F
from conftest import tools_folder

INF, NAN, IGNORED, CLASSES = float("inf"), float("nan"), -100, 7

# Logits of ignored rows. If their softmax is NaN, PyTorch's gradient is NaN, but Parashard's is zero.
ROWS = {
    "finite": [0.5, -1.0, 2.0, 0.0, 1.0, -0.5, 3.0],
    "masked classes": [0.5, -INF, 2.0, -INF, 1.0, -0.5, -INF],
    "infinite": [0.5, -1.0, INF, 0.0, 1.0, -0.5, 3.0],
    "nan": [0.5, -1.0, 2.0, 0.0, 1.0, NAN, 3.0],
    "all masked": [-INF] * CLASSES,
    "all infinite": [INF] * CLASSES,
}
EQUAL_TO_TORCH = ["finite", "masked classes"]


def draw():
    """Draws logits, labels and cotangents. Every second row is ignored. A row that is not ignored has masked classes, too."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2 * len(ROWS), CLASSES, generator=generator)
    x[0, 3] = -INF
    x[1::2] = torch.tensor(list(ROWS.values()))
    labels = torch.randint(4, CLASSES, (len(x),), generator=generator)
    labels[1::2] = IGNORED
    return x, labels, torch.rand(len(x), generator=generator) + 0.5


def make_calls(smoothing, split):
    """Returns two calls: the loss and its gradient. `split` is the dim of the logits that is split over ranks, or None."""
    rows = 2 * len(ROWS)
    x, row, labels = f"tensor<{rows}x{CLASSES}xf32>", f"tensor<{rows}xf32>", f"tensor<{rows}xi64>"
    words = f"ignore {IGNORED}" + (f" smoothing {smoothing}" if smoothing else "") + " ATTRIBUTES"
    loss = f"%r0, %r1 = ps.cross_entropy %x, %t {words} : {x}, {labels} -> {row}"
    gradient = f"%r0 = ps.cross_entropy_grad %x, %g, %t, %l {words} : {x}, {row}, {labels}"
    dims = ['{"tp"}' if dim == split else "{}" for dim in (0, 1)]
    wide, narrow = f"#ps.sharding<@mesh, [{', '.join(dims)}]>", f"#ps.sharding<@mesh, [{dims[0]}]>"
    cases = [op_cases.OpCase("loss", loss, {"x": x, "t": labels}, [row, row]),
             op_cases.OpCase("gradient", gradient, {"x": x, "g": row, "t": labels, "l": row}, [x])]
    return [joined.Call("loss", cases[0], [wide, narrow], [narrow, narrow]),
            joined.Call("gradient", cases[1], [wide, narrow, narrow, narrow], [wide])]


def compute_in_torch(smoothing):
    """Computes in PyTorch. Returns (inputs of the calls, losses, gradient of the logits)."""
    x, labels, cotangent = draw()
    x.requires_grad_()
    loss = F.cross_entropy(x, labels, ignore_index=IGNORED, label_smoothing=smoothing, reduction="none")
    loss.backward(cotangent)
    lse = x[:, 4] - F.log_softmax(x, dim=1)[:, 4]
    tensors = {"x": x, "t": labels, "g": cotangent, "l": lse}
    given = {f"{call.name}.{name}": tensors[name].detach().clone() for call in make_calls(smoothing, None)
             for name in call.case.operands}
    return given, loss.detach(), x.grad


@pytest.mark.parametrize("smoothing", [0, 0.1])
@pytest.mark.parametrize("split,ranks", [(None, 1), (0, 2), (1, 2), (1, 3)], ids=["one rank", "rows", "classes", "padded"])
def test_ignored_rows_give_zeros(tmp_path, smoothing, split, ranks):
    """Ignored rows are zero in the evaluator and in compiled programs. All other rows equal PyTorch's."""
    given, loss, gradient = compute_in_torch(smoothing)
    for i, name in enumerate(ROWS):
        assert name not in EQUAL_TO_TORCH or torch.equal(gradient[2 * i + 1], torch.zeros(CLASSES)), name
    gradient[1::2] = 0
    assert loss[2::2].isfinite().all() and gradient.isfinite().all()

    calls = make_calls(smoothing, split)
    whole, planned, local = (tmp_path / f"{name}.mlir" for name in ("whole", "planned", "local"))
    whole.write_text(joined.module(calls))
    planned.write_text(joined.module(calls, f'"tp" = {ranks} : tensor'))
    joined.run([tools_folder() / "ps-compile", planned, "-o", local, "--stop-after", "partitioned"], tmp_path)
    for found in (joined.evaluate(calls, whole, tmp_path, values=given),
                  joined.evaluate(calls, local, tmp_path, ranks, given),
                  joined.call_compiled(calls, local, tmp_path, ranks, values=given)):
        torch.testing.assert_close(found["loss.r0"], loss)
        torch.testing.assert_close(found["gradient.r0"], gradient)
