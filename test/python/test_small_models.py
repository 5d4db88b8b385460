"""Small models with constructs that larger models seldom have: their first step equals PyTorch's, on one rank and sharded."""
import copy

import pytest
import torch
from oracle import first_step
from parashard.export import trace
from torch import nn
from torch.nn import functional as F

ROWS, IN, OUT = 8, 6, 10


class Twice(nn.Module):
    """A parameter that one segment reads several times: its gradient is the sum over all uses."""

    def __init__(self, kind):
        super().__init__()
        torch.manual_seed(0)
        self.kind = kind
        self.linear = nn.Linear(IN, OUT)
        self.scale = nn.Parameter(torch.tensor(0.3))

    def forward(self, x, y):
        w, z = self.linear.weight, self.linear(x)
        if self.kind == "siamese":
            return F.mse_loss(z, self.linear(x * 2))
        if self.kind == "decay":
            return F.mse_loss(z, y) + w.square().sum()
        if self.kind == "product":
            return F.mse_loss(z, y) + (w @ w.t()).square().mean()
        if self.kind == "autoencoder":
            return F.mse_loss(F.linear(torch.tanh(z), w.t()), x)
        if self.kind == "norm":
            return F.mse_loss(F.linear(x, w / w.square().sum(1, keepdim=True).sqrt(), self.linear.bias), y)
        if self.kind == "bias":
            return F.mse_loss(z + self.linear.bias, y)
        if self.kind == "scalar":
            return F.mse_loss(z * self.scale + self.scale, y)
        if self.kind == "three":
            return F.mse_loss(z, y) + F.mse_loss(self.linear(x + 1), y) + F.mse_loss(self.linear(x - 1), y)
        raise AssertionError(self.kind)


class Bools(nn.Module):
    """Maxima, minima and sums of bools, where true is greater than false."""

    def __init__(self, kind):
        super().__init__()
        torch.manual_seed(0)
        self.kind, self.linear = kind, nn.Linear(IN, OUT)

    def forward(self, x, y):
        p, q = y > 0.3, x[:, :1] > 0
        mask = {
            "any": lambda: p.any(1, keepdim=True), "all": lambda: (y > -2).all(1, keepdim=True),
            "max": lambda: torch.maximum(p, q), "min": lambda: torch.minimum(p, q),
            "amax": lambda: p.amax(1, keepdim=True), "amin": lambda: (y > -1).amin(1, keepdim=True), "add": lambda: p + q,
        }[self.kind]()  # fmt: skip
        return F.mse_loss(self.linear(x) * mask, y)


class Attention(nn.Module):
    """Attention whose values have another head size than queries and keys, or whose samples share the keys and values of one sample."""

    def __init__(self, query, value, shared=False):
        super().__init__()
        torch.manual_seed(0)
        self.shared = shared
        self.q, self.k, self.v = nn.Linear(IN, 2 * query), nn.Linear(IN, 2 * query), nn.Linear(IN, 2 * value)

    def forward(self, x, y):
        def split(z):
            return z.unflatten(2, (2, -1)).transpose(1, 2)

        source = x[:1] if self.shared else x
        z = F.scaled_dot_product_attention(split(self.q(x)), split(self.k(source)), split(self.v(source)))
        return z.square().mean() + (x.sum() - y.sum()) * 0


class Reversed(nn.Module):
    """rsub with a factor."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(IN, OUT)

    def forward(self, x, y):
        return F.mse_loss(torch.rsub(self.linear(x), y, alpha=3.0), y)


class Remainders(nn.Module):
    """Integers divided with a floored and with a truncated quotient."""

    def __init__(self, function):
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.function = nn.Linear(IN, OUT), function

    def forward(self, x, y):
        whole = (y * 10).to(torch.int64)
        return F.mse_loss(self.linear(x), self.function(whole, 3) + 10.0 * self.function(whole, -4))


class Doubles(nn.Module):
    """A model that computes in float64."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down = nn.Linear(IN, 12).double(), nn.Linear(12, OUT).double()

    def forward(self, x, y):
        z = self.up(x.double())
        z = F.gelu(z) + torch.tanh(z).exp().sin() + F.silu(z)
        return F.cross_entropy(self.down(z), (y[:, 0] > 0).long())


class Parts(nn.Module):
    """Sums over all rows that are then sliced, padded or concatenated: an element of the result has another index than in the sum."""

    def __init__(self, kind):
        super().__init__()
        torch.manual_seed(0)
        self.kind, self.linear = kind, nn.Linear(IN, OUT)
        self.bias = nn.Parameter(torch.randn(3 * OUT))

    def forward(self, x, y):
        z = self.linear(x)
        if self.kind == "padded":
            return (F.pad(z.sum((0, 1)), (3, 1)) - 0.1).square().mean()
        if self.kind == "sliced":
            return (z.sum((0, 1))[3:7] - 0.1).square().mean()
        if self.kind == "a part of a bias":
            return F.mse_loss((z + self.bias[OUT : 2 * OUT])[..., 4:] + self.bias[OUT + 4 : 2 * OUT], y[..., 4:])
        if self.kind == "repeated":
            return F.mse_loss(z + self.bias[2:7].repeat(2), y)
        if self.kind == "joined":
            total = z.sum((0, 1))
            return (torch.cat([total, total * 2]) - 0.1).square().mean()
        if self.kind == "the same for all columns":  # the gradient of z is then equal in all columns; the gradient of the bias sums it over rows
            return z.transpose(0, 2).sum(0).square().mean()
        raise AssertionError(self.kind)


class FirstToken(nn.Module):
    """Ops on some positions of a sequence: the gradient is padded with zeros for the other positions."""

    def __init__(self, kind):
        super().__init__()
        torch.manual_seed(0)
        self.kind, self.linear = kind, nn.Linear(IN, OUT)

    def forward(self, x, y):
        z = self.linear(x)
        if self.kind == "repeated":
            return F.mse_loss(z[:, 0, None].expand(ROWS, 3, OUT).mean(1), y[:, 0])
        if self.kind == "the second, repeated":
            return F.mse_loss(z[:, 1, None].expand(ROWS, 3, OUT).mean(1), y[:, 0])
        if self.kind == "the first two":
            return F.mse_loss(z[:, None, :2].expand(ROWS, 3, 2, OUT).sum(1), y[:, :2])
        if self.kind == "every second":
            return F.mse_loss(z[:, ::2, None].expand(ROWS, z.shape[1] // 2, 5, OUT).sum(2), y[:, ::2])
        if self.kind == "joined":  # the gradient of the first part begins at the buffer's first element
            first = torch.cat([z[:, :1].expand(ROWS, 3, OUT).sum(1, keepdim=True), z], 1)
            return F.mse_loss(first[:, 1:] * first[:, :1], y)
        raise AssertionError(self.kind)


def normalised(weight):
    return weight / weight.norm()


class Quantizer(nn.Module):
    """The bottleneck of a VQ-VAE: it selects rows of a codebook, and passes gradients straight through."""

    def __init__(self):
        super().__init__()
        self.codes = nn.Parameter(torch.randn(4, OUT) * 0.3)

    def forward(self, z):
        nearest = F.softmax(-100 * (z.unsqueeze(-2) - self.codes).square().sum(-1), -1).detach() @ self.codes
        loss = F.mse_loss(nearest, z.detach()) + 0.25 * F.mse_loss(z, nearest.detach())
        return z + (nearest - z).detach(), loss


class Stopped(nn.Module):
    """Values that depend on parameters, without a gradient."""

    def __init__(self, kind):
        super().__init__()
        torch.manual_seed(0)
        self.kind = kind
        linear = nn.Linear(IN, OUT)
        self.linear = nn.utils.parametrizations.spectral_norm(linear) if kind == "spectral norm" else linear
        self.target = nn.Linear(IN, OUT)
        self.quantizer = Quantizer()
        self.register_buffer("average", torch.zeros(OUT))

    def forward(self, x, y):
        z = self.linear(x)
        if self.kind == "region":
            with torch.no_grad():
                w = normalised(self.linear.weight)
            return F.mse_loss(z, y) + F.linear(x, w).mul(z).mean()
        if self.kind == "two results":
            with torch.no_grad():
                w, b = normalised(self.linear.weight), self.linear.bias * 2
            return F.mse_loss(z * F.linear(x, w, b), y)
        if self.kind == "enabled":
            with torch.no_grad():
                a = z * 2
                with torch.enable_grad():
                    b = z * 3
                c = b * 2
            return F.mse_loss(z * a + b * c, y)
        if self.kind == "detach":
            return F.mse_loss(z * z.detach(), y)
        if self.kind == "data":
            return F.mse_loss(z * F.linear(x, self.linear.weight.data), y)
        if self.kind == "data of a value":
            return F.mse_loss(z * z.data, y)
        if self.kind == "decorated":
            return F.mse_loss(z * torch.no_grad()(normalised)(z), y)
        if self.kind == "target network":
            with torch.no_grad():
                goal = self.target(x)
            return F.mse_loss(z, goal) + F.mse_loss(self.target(x), y)
        if self.kind == "straight through":
            return F.mse_loss(z + (torch.round(z * 4) / 4 - z).detach(), y)
        if self.kind == "vq":
            z, loss = self.quantizer(z)
            return F.mse_loss(z, y) + loss
        if self.kind == "gate":  # has the values of SiLU, but not its derivative
            return F.mse_loss(z * torch.sigmoid(z).detach(), y)
        if self.kind == "softmax":
            e = (z - z.amax(-1, keepdim=True).detach()).exp()
            return F.mse_loss(e / e.sum(-1, keepdim=True), y)
        if self.kind == "term":
            return F.mse_loss(z, y) + (z.square().mean() * 3).detach()
        if self.kind == "balanced":
            a, b = F.mse_loss(z, y), F.l1_loss(z, y)
            return a + b * (a / b).detach()
        if self.kind == "buffer":
            with torch.no_grad():
                self.average.mul_(0.9).add_(z.mean((0, 1)), alpha=0.1)
            return F.mse_loss(z - self.average, y)
        if self.kind == "spectral norm":
            return F.mse_loss(z, y)
        raise AssertionError(self.kind)


class CrossAttention(nn.Module):
    """Attention with the query from one tensor, and key and value from another. One bias has a part for each of the three."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.attention = nn.MultiheadAttention(OUT, 2, batch_first=True)
        nn.init.normal_(self.attention.in_proj_bias, std=0.1)
        self.linear = nn.Linear(IN, OUT)

    def forward(self, x, y):
        return F.mse_loss(self.attention(self.linear(x), y, y, need_weights=False)[0], y)


class Scaled(nn.Module):
    """Values multiplied by their mean, then concatenated or padded: two loops of the kernel read the only value of each row."""

    def __init__(self, kind):
        super().__init__()
        torch.manual_seed(0)
        self.kind, self.linear = kind, nn.Linear(IN, OUT)

    def forward(self, x, y):
        a = torch.tanh(self.linear(x)[..., 0])
        scale = a.mean()
        if self.kind == "joined":
            return torch.cat([a, a * scale], 0).square().mean()
        return F.pad(a * scale, (0, 0, 1, 1)).square().mean() * scale


class Ranked(nn.Module):
    """Elements selected by their order: gates of a mixture of experts, sorted features, and the worst samples of a batch."""

    def __init__(self, kind):
        super().__init__()
        torch.manual_seed(0)
        self.kind, self.linear, self.gate = kind, nn.Linear(IN, OUT), nn.Linear(IN, OUT)

    def forward(self, x, y):
        z, scores = self.linear(x), self.gate(x)
        if self.kind == "gates":
            least = scores.topk(3).values[..., -1:]
            return F.mse_loss(z * scores.masked_fill(scores < least, float("-inf")).softmax(-1), y)
        if self.kind == "ordered":
            return F.mse_loss(z.sort(-1).values + z.sort(1, descending=True).values, y)
        if self.kind == "worst samples":
            return (z - y).square().mean((1, 2)).topk(ROWS // 2, sorted=False).values.mean()
        raise AssertionError(self.kind)


def draw(*shape):
    generator = torch.Generator().manual_seed(3)
    return {
        "x": torch.randn(ROWS, *shape, IN, generator=generator),
        "y": torch.randn(ROWS, *shape, OUT, generator=generator),
    }


def check(folder, module, data, mesh="dp=1", tolerance=1e-5, decomposed=False):
    program = trace(module, data, None) if decomposed else torch.export.export(module, (), data)
    torch.export.save(program, folder / "model.pt2")
    loss = module(**data)
    loss.backward()
    found, gradients = first_step(folder, folder / "model.pt2", data, mesh=mesh)
    assert found == pytest.approx(float(loss.detach()), rel=tolerance)
    for name, parameter in module.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(gradients[name], parameter.grad, rtol=tolerance, atol=tolerance / 10)


@pytest.mark.cover(1)
@pytest.mark.parametrize("mesh", ["dp=1", "dp=2,tp=2"])
@pytest.mark.parametrize("kind", ["siamese", "decay", "product", "autoencoder", "norm", "bias", "scalar", "three"])
def test_parameter_read_twice(tmp_path, kind, mesh):
    check(tmp_path, Twice(kind), draw(), mesh)


@pytest.mark.parametrize("kind", ["any", "all", "max", "min", "amax", "amin", "add"])
def test_bools(tmp_path, kind):
    check(tmp_path, Bools(kind), draw())


@pytest.mark.parametrize("query,value,shared", [(4, 7, False), (7, 4, False), (5, 5, True)])
def test_value_heads_of_another_size(tmp_path, query, value, shared):
    check(tmp_path, Attention(query, value, shared), draw(5))


@pytest.mark.cover(1)
@pytest.mark.parametrize("mesh", ["dp=1", "dp=2,tp=2"])
@pytest.mark.parametrize("kind", ["padded", "sliced", "a part of a bias", "repeated", "joined", "the same for all columns"])
def test_parts_of_sums(tmp_path, kind, mesh):
    check(tmp_path, Parts(kind), draw(5), mesh)


@pytest.mark.cover(1)
@pytest.mark.parametrize("mesh", ["dp=1", "dp=2,tp=2"])
@pytest.mark.parametrize("kind", ["gates", "ordered", "worst samples"])
def test_order_of_elements(tmp_path, kind, mesh):
    check(tmp_path, Ranked(kind), draw(5), mesh)


@pytest.mark.parametrize("mesh", ["dp=1", "dp=2,tp=2"])
def test_cross_attention(tmp_path, mesh):
    check(tmp_path, CrossAttention(), draw(5), mesh)


@pytest.mark.cover(1)
@pytest.mark.parametrize("mesh", ["dp=1", "dp=2"])
@pytest.mark.parametrize("kind", ["joined", "padded"])
def test_rows_scaled_by_their_mean(tmp_path, kind, mesh):
    data = {name: value[:4] for name, value in draw(3).items()}
    check(tmp_path, Scaled(kind), data, mesh)


def test_rsub(tmp_path):
    check(tmp_path, Reversed(), draw())


@pytest.mark.parametrize("function", [torch.remainder, torch.fmod, torch.floor_divide], ids=lambda f: f.__name__)
def test_integer_division(tmp_path, function):
    check(tmp_path, Remainders(function), draw())


def test_float64(tmp_path):
    check(tmp_path, Doubles(), draw(), tolerance=1e-7)


def test_unsigned_bytes_are_converted(tmp_path):
    class Images(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.linear = nn.Linear(IN, OUT)

        def forward(self, x, y):
            return F.mse_loss(self.linear(x.float() / 255 - 0.5), y)

    data = draw()
    data["x"] = (data["x"].abs() * 90).clamp(max=255).to(torch.uint8)
    assert int(data["x"].max()) > 127
    check(tmp_path, Images(), data)


class Sixteen(nn.Module):
    """Fused ops that compute their rows in f32, in a model whose parameters are 16-bit."""

    def __init__(self, kind):
        super().__init__()
        torch.manual_seed(0)
        self.kind, self.linear = kind, nn.Linear(IN, OUT)
        self.register_buffer("weights", torch.linspace(0.5, 1.5, OUT))
        self.affine = nn.Parameter(torch.linspace(0.5, 1.5, OUT))

    def forward(self, x, y):
        z, labels = self.linear(x), (torch.arange(ROWS) * 3) % OUT
        rows = torch.where(labels == 3, -100, labels)
        parts = z.unflatten(1, (2, 5)).unsqueeze(0).transpose(1, 2)  # the heads of attention
        return {
            "mean": lambda: F.cross_entropy(z, rows), "sum": lambda: F.cross_entropy(z, rows, reduction="sum"),
            "rows": lambda: F.cross_entropy(z, rows, reduction="none").square().mean(),
            "weighted": lambda: F.cross_entropy(z, rows, self.weights),
            "soft": lambda: F.cross_entropy(z, y.softmax(-1), self.weights),
            "smooth": lambda: F.cross_entropy(z, rows, self.weights, label_smoothing=0.2),
            "positions": lambda: F.cross_entropy(z.view(2, 4, OUT).transpose(1, 2), rows.view(2, 4)),
            "nll": lambda: F.nll_loss(z.log_softmax(-1), rows),
            "gather": lambda: -z.log_softmax(-1).gather(1, labels[:, None]).mean(),
            "logsumexp": lambda: z.logsumexp(-1).square().mean(), "softmax": lambda: (z.softmax(-1) * y).mean(),
            "layer_norm": lambda: (F.layer_norm(z, (OUT,), self.affine) * y).square().mean(),
            "rms_norm": lambda: (F.rms_norm(z, (OUT,), self.affine) * y).square().mean(),
            "group_norm": lambda: (F.group_norm(z, 2) * y).square().mean(),
            "batch_norm": lambda: (F.batch_norm(z.tanh(), None, None, training=True) * y).square().mean(),
            "attention": lambda: F.scaled_dot_product_attention(parts, parts, parts, is_causal=True).square().mean(),
            "masked": lambda: F.scaled_dot_product_attention(parts, parts, parts, labels[:, None] >= labels).square().mean(),
            "written": lambda: ((parts @ parts.mT / 5**0.5).softmax(-1) @ parts).square().mean(),
            "gelu": lambda: F.gelu(z).square().mean(), "bce": lambda: F.binary_cross_entropy_with_logits(z, y.sigmoid()),
        }[self.kind]()  # fmt: skip


def check_sixteen_bits(tmp_path, single, dtype, unit):
    """Checks a model with 16-bit parameters: its loss and gradients equal those in f32 up to a few roundings."""
    data = {n: v.to(dtype) for n, v in draw().items()}
    module = copy.deepcopy(single).to(dtype)
    torch.export.save(torch.export.export(module, (), data), tmp_path / "model.pt2")
    loss, gradients = first_step(tmp_path, tmp_path / "model.pt2", data)
    exact = copy.deepcopy(module).float()  # has the rounded weights
    expected = exact(**{n: v.float() for n, v in data.items()})
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=8 * unit)
    for name, parameter in exact.linear.named_parameters(prefix="linear"):
        assert gradients[name].dtype == dtype
        assert (gradients[name].float() - parameter.grad).norm() < 16 * unit * parameter.grad.norm(), name


@pytest.mark.parametrize("dtype,unit", [(torch.bfloat16, 2**-8), (torch.float16, 2**-11)])
def test_sixteen_bits_train(tmp_path, dtype, unit):
    check_sixteen_bits(tmp_path, Twice("bias"), dtype, unit)


FUSED = ["mean", "sum", "rows", "weighted", "soft", "smooth", "positions", "nll", "gather", "logsumexp", "softmax", "layer_norm",
         "rms_norm", "group_norm", "batch_norm", "attention", "masked", "written", "gelu", "bce"]  # fmt: skip


@pytest.mark.part(3)
@pytest.mark.parametrize("dtype,unit", [(torch.bfloat16, 2**-8), (torch.float16, 2**-11)])
@pytest.mark.parametrize("kind", FUSED)
def test_fused_ops_of_sixteen_bits(tmp_path, kind, dtype, unit):
    check_sixteen_bits(tmp_path, Sixteen(kind), dtype, unit)


@pytest.mark.part(2)
@pytest.mark.parametrize("mesh", ["dp=1", "dp=2,tp=2"])
@pytest.mark.parametrize("kind", ["repeated", "the second, repeated", "the first two", "every second", "joined"])
def test_gradient_of_some_positions(tmp_path, kind, mesh):
    check(tmp_path, FirstToken(kind), draw(6), mesh)


STOPPED = ["region", "two results", "enabled", "detach", "decorated", "target network", "straight through", "vq", "gate", "softmax",
           "term", "balanced", "buffer"]  # fmt: skip


@pytest.mark.part(2)
@pytest.mark.parametrize("decomposed", [False, True], ids=["exported", "decomposed"])
@pytest.mark.parametrize("kind", STOPPED)
def test_stopped_gradient(tmp_path, kind, decomposed):
    check(tmp_path, Stopped(kind), draw(4), decomposed=decomposed)


@pytest.mark.parametrize("kind", ["region", "vq", "target network"])
def test_stopped_gradient_on_four_ranks(tmp_path, kind):
    check(tmp_path, Stopped(kind), draw(4), "dp=2,tp=2")


@pytest.mark.parametrize("kind", ["data", "data of a value", "spectral norm"])
def test_stopped_gradient_as_parashard_exports_it(tmp_path, kind):
    check(tmp_path, Stopped(kind), draw(4), decomposed=True)
