"""`parashard.export`: exported models compile and equal the original. Models that cannot be exported are refused with a clear message."""
import contextlib
import io
import os
import re
import subprocess
import sys

import lanes
import language
import pytest
import torch
from conftest import package_folder, tools_folder
from oracle import first_step, run
from torch import nn
from torch.nn import functional as F

PACKAGE = str(package_folder())
sys.path.insert(0, PACKAGE)

from parashard.export import ExportFailed, export, main  # noqa: E402


def run_export(folder, *arguments, expect=0):
    """Runs the command line of `parashard.export` in this process, because a new process imports PyTorch. Returns its output."""
    output, status, before = io.StringIO(), 0, os.getcwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            main([*map(str, arguments)])
    except SystemExit as stop:  # Python prints a text as the status, and exits with 1
        status = 1 if isinstance(stop.code, str) else stop.code
        output.write(f"{stop.code}\n")
    finally:
        os.chdir(before)
    assert status == expect, output.getvalue()
    return output.getvalue()


def run_module(folder, *arguments):
    """Runs `python -m parashard.export`. Returns its output."""
    done = subprocess.run(
        [sys.executable, "-m", "parashard.export", *map(str, arguments)],
        cwd=folder, capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONPATH": PACKAGE},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


class Plain(nn.Module):
    """A model that returns only logits. With `branches`, forward branches on the values of its input."""

    def __init__(self, branches=False):
        super().__init__()
        torch.manual_seed(0)
        self.branches = branches
        self.up, self.down = nn.Linear(6, 12), nn.Linear(12, 5)

    def forward(self, x):
        if self.branches and x.sum() > 0:
            x = x * 2
        return self.down(F.gelu(self.up(x)))


def draw(batch, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, 6, generator=generator), torch.randint(0, 5, (batch,), generator=generator)


def test_loss_is_put_into_the_graph_and_names_stay(tmp_path):
    x, labels = draw(4)
    model = Plain().eval()
    done = export(model, {"x": x, "labels": labels}, tmp_path / "m.pt2", loss=F.cross_entropy)
    assert done.loss and done.parameters == done.trained == sum(p.numel() for p in model.parameters())
    assert not model.training and model(x).shape == (4, 5)  # the export does not change the model
    x, labels = draw(6, seed=1)  # another batch size than at the export
    expected = F.cross_entropy(model(x), labels)
    expected.backward()
    loss, gradients = first_step(tmp_path, tmp_path / "m.pt2", {"x": x, "labels": labels}, "--batch", 6)
    assert loss == pytest.approx(float(expected), rel=1e-5)
    assert set(gradients) == {name for name, _ in model.named_parameters()}
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.grad, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("attention", ["sdpa", lanes.full("eager")])
def test_hugging_face_folder(tmp_path, attention):
    from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(
        vocab_size=96, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64,
    )).save_pretrained(tmp_path / "llama")  # fmt: skip
    said = run_export(tmp_path, f"hf:{tmp_path / 'llama'}", "--batch", 4, "--seq", 16, "--attention", attention, "-o", "llama.pt2")
    assert "24,736 parameters" in said and "x 16" in said and "ps-compile llama.pt2" in said
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "llama")
    tokens = torch.randint(0, 96, (6, 16), generator=torch.Generator().manual_seed(1))
    expected = float(model(input_ids=tokens, labels=tokens).loss)
    loss, _ = first_step(tmp_path, tmp_path / "llama.pt2", {"input_ids": tokens, "labels": tokens.clone()}, "--batch", 6)
    assert loss == pytest.approx(expected, rel=1e-5)
    assert "has 64 positions" in run_export(tmp_path, f"hf:{tmp_path / 'llama'}", "--seq", 65, "-o", "long.pt2", expect=1)


def test_padded_samples_of_a_hugging_face_folder(tmp_path):
    model = language.opt()
    model.module.save_pretrained(tmp_path / "opt")
    said = run_export(tmp_path, f"hf:{tmp_path / 'opt'}", "--padding", "--seq", language.LENGTH, "-o", "opt.pt2")
    assert re.search(r"input attention_mask: s\d+ x 12", said)
    inputs = model.draw_inputs(3)
    loss, _ = first_step(tmp_path, tmp_path / "opt.pt2", inputs)
    assert loss == pytest.approx(float(model.module(**inputs).loss.detach()), rel=1e-5)


def test_the_cache_of_a_decoder_is_omitted(tmp_path):
    """The export does not change the model's configuration."""
    from transformers import GPT2Config, GPT2LMHeadModel

    module = GPT2LMHeadModel(GPT2Config(vocab_size=96, n_embd=32, n_layer=2, n_head=4, n_positions=16, bos_token_id=0, eos_token_id=0,
                                        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))  # fmt: skip
    tokens = torch.randint(0, 96, (4, 16), generator=torch.Generator().manual_seed(1))
    exported = export(module, {"input_ids": tokens, "labels": tokens.clone()}, tmp_path / "gpt2.pt2")
    assert exported.loss and module.config.use_cache is True
    loss, _ = first_step(tmp_path, tmp_path / "gpt2.pt2", {"input_ids": tokens, "labels": tokens.clone()})
    assert loss == pytest.approx(float(module(input_ids=tokens, labels=tokens, use_cache=False).loss.detach()), rel=1e-5)


def test_without_data(tmp_path):
    from transformers import LlamaConfig

    LlamaConfig(
        architectures=["LlamaForCausalLM"], vocab_size=96, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
    ).save_pretrained(tmp_path / "config")  # fmt: skip
    said = run_export(tmp_path, f"hf:{tmp_path / 'config'}", "--meta", "--batch", 4, "--seq", 16, "-o", "m.pt2")
    assert "no data" in said
    tokens = torch.zeros(4, 16, dtype=torch.int64)
    loss, _ = first_step(tmp_path, tmp_path / "m.pt2", {"input_ids": tokens, "labels": tokens.clone()}, "--init", "normal(0.02)")
    assert 3 < loss < 6  # near log(96)
    said = run([tools_folder() / "ps-compile", "m.pt2", "-o", "p"], cwd=tmp_path, expect=1)
    assert "--init" in said and not (tmp_path / "p").exists()  # without --init, the parameters have no values


def test_drawn_values_are_the_same_on_any_number_of_threads(tmp_path):
    module = torch.nn.Sequential(torch.nn.Linear(400, 300), torch.nn.Linear(300, 1))
    export(module, {"input": torch.zeros(2, 400), "labels": torch.zeros(2, 1)}, tmp_path / "m.pt2", loss=torch.nn.functional.mse_loss)
    run([tools_folder() / "ps-compile", "m.pt2", "-o", "p", "--precision", "bf16", "--init", "normal(0.02)"], cwd=tmp_path)
    for threads in [1, 3]:
        run(["./p", "--threads", threads, "--export-weights", f"{threads}.safetensors"], cwd=tmp_path)
    one, three = ((tmp_path / f"{threads}.safetensors").read_bytes() for threads in [1, 3])
    assert one == three and len(set(one)) > 200


def test_masks_of_any_batch_are_found(tmp_path):
    """Masks are recognized from the computation of one sample, since 70,000 samples would take too much memory."""
    from transformers import GPT2Config

    config = GPT2Config(architectures=["GPT2LMHeadModel"], n_embd=16, n_head=2, n_layer=1, n_positions=16, vocab_size=32)
    config.save_pretrained(tmp_path / "config")
    run_export(tmp_path, f"hf:{tmp_path / 'config'}", "--meta", "--batch", 4, "--seq", 16, "-o", "m.pt2")
    texts = []
    for batch in (4, 70_000):
        flags = ["--batch", batch, "--init", "normal(0.02)", "--weights", "none", "--stop-after", "training"]
        run([tools_folder() / "ps-compile", "m.pt2", "-o", "m.mlir", *flags], cwd=tmp_path)
        texts.append((tmp_path / "m.mlir").read_text())
        assert set(re.findall(r'ps.attention_form = "([^"]*)"', texts[-1])) == {"causal"}
    assert len(texts[0].splitlines()) == len(texts[1].splitlines())


def test_function_of_a_file(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "class M(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.l = torch.nn.Linear(3, 1)\n"
        "    def forward(self, x, y):\n"
        "        return ((self.l(x) - y) ** 2).mean()\n"
        "def make():\n"
        "    return M(), {'x': torch.zeros(4, 3), 'y': torch.zeros(4, 1)}\n"
    )
    assert "4 parameters" in run_module(tmp_path, "mine.py:make", "-o", "mine.pt2")
    run([tools_folder() / "ps-compile", "mine.pt2", "-o", "mine", "--batch", "8", "--mesh", "dp=2"], cwd=tmp_path)


@pytest.mark.parametrize(
    "arguments,status,words",
    [
        (["mine.py:make", "-o", "m.pt2"], 2, ["mine.py", "no such file"]),
        (["nothing", "-o", "m.pt2"], 2, ["hf:PATH", "FUNCTION"]),
        (["no_such_package:make", "-o", "m.pt2"], 2, ["no_such_package"]),
        (["hf:/no/such/folder", "-o", "m.pt2"], 2, ["/no/such/folder"]),
        (["os:getcwd", "-o", "m.pt2"], 1, ["(module, inputs)"]),
    ],
)
def test_refused_sources(tmp_path, arguments, status, words):
    said = run_export(tmp_path, *arguments, expect=status)
    assert "Traceback" not in said and all(word in said for word in words), said
    assert not list(tmp_path.iterdir())


class Dropping(nn.Module):
    """A model that skips layers at random, as Hugging Face's encoders do."""

    def __init__(self, layerdrop):
        super().__init__()
        torch.manual_seed(0)
        self.layerdrop = layerdrop
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(2))

    def forward(self, x):
        for layer in self.layers:
            if self.training:
                drawn = torch.rand([])
                if drawn < self.layerdrop:
                    continue
            x = torch.tanh(layer(x))
        return x.square().mean()


def test_layerdrop_is_refused(tmp_path):
    """A layerdrop of 0, and any layerdrop in evaluation mode, can be exported. A layerdrop above 0 in training mode is refused."""
    x, _ = draw(4)
    for share, train in [(0.0, True), (0, True), (0.5, False)]:
        model = Dropping(share)
        export(model, {"x": x}, tmp_path / "m.pt2", train=train)
        assert type(model.layerdrop) is type(share) and model.training
        loss, gradients = first_step(tmp_path, tmp_path / "m.pt2", {"x": x})
        assert loss == pytest.approx(float(model.train(train)(x)), rel=1e-5)
        assert set(gradients) == {name for name, _ in model.named_parameters()}
    (tmp_path / "m.pt2").unlink()
    with pytest.raises(ExportFailed, match=r"layers at random \(layerdrop = 0.5\).*set it to 0"):
        export(Dropping(0.5), {"x": x}, tmp_path / "m.pt2")
    assert not (tmp_path / "m.pt2").exists()


UNKNOWN = """
import torch
class Unknown(torch.nn.Module):
    def forward(self, x):
        return torch.linalg.det(x).sum() + x.lgamma().sum()
def make(): return Unknown(), {"x": torch.randn(2, 3, 3)}
"""


def test_ops_that_the_compiler_does_not_know_are_named(tmp_path, monkeypatch, capsys):
    (tmp_path / "model.py").write_text(UNKNOWN)
    monkeypatch.setenv("PARASHARD_BIN", str(tools_folder()))
    main([f"{tmp_path}/model.py:make", "-o", f"{tmp_path}/m.pt2"])
    said = capsys.readouterr().out
    assert "ps-compile cannot import this model: " in said and "next:" not in said and (tmp_path / "m.pt2").exists()
    assert re.search(r"aten.lgamma.default: 1 use, the first in the model itself \(.*model.py:5\)", said)
    assert not export(Plain(), {"x": draw(4)[0]}, tmp_path / "plain.pt2").unsupported
    monkeypatch.setattr("parashard.export.find_tool", lambda name: None)
    done = export(Plain(), {"x": draw(4)[0]}, tmp_path / "m.pt2")
    assert not done.unsupported and any("were not checked" in note for note in done.notes)


def test_a_mask_whose_values_are_read(tmp_path):
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1, enable_nested_tensor=False)

        def forward(self, x):
            return self.layers(x, mask=nn.Transformer.generate_square_subsequent_mask(5)).sum()

    with pytest.raises(ExportFailed, match="pass is_causal=True"):
        export(Masked(), {"x": torch.randn(4, 5, 8)}, tmp_path / "m.pt2")


def test_refused_models(tmp_path):
    x, _ = draw(4)
    with pytest.raises(ExportFailed, match="torch.where"):
        export(Plain(branches=True), {"x": x}, tmp_path / "m.pt2")
    with pytest.raises(ExportFailed, match="no parameter z; it has x"):
        export(Plain(), {"x": x, "z": x}, tmp_path / "m.pt2")
    with pytest.raises(ExportFailed, match="also needs x"):
        export(Plain(), {}, tmp_path / "m.pt2")
    with pytest.raises(ExportFailed, match="end in .pt2"):
        export(Plain(), {"x": x}, tmp_path / "m.onnx")
    with pytest.raises(ExportFailed, match="cannot write"):
        export(Plain(), {"x": x}, tmp_path / "no" / "m.pt2")
    assert not list(tmp_path.iterdir())


# ---- gradients that torch.export or a decomposition would lose --------------------------------------------------------


class Apply(nn.Module):
    """A model whose loss is `function(self, h)`, where h is the result of a layer. `q` is a buffer."""

    def __init__(self, function):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.function = nn.Linear(6, 6), function
        self.register_buffer("q", torch.randn(8, 6))

    def forward(self, x):
        return self.function(self, self.layer(x))


def queue(model, h):
    with torch.no_grad():
        model.q[:4] = h[:4]
    return (h @ model.q.t()).logsumexp(-1).mean()


def part_of_another(model, h):
    mask = torch.zeros_like(h)
    with torch.no_grad():
        mask[:, 3] = h[:, 3].sigmoid()
    return (h * mask).mean()


def through_a_view(model, h):
    mask = torch.zeros_like(h)
    with torch.no_grad():
        mask.view(-1).copy_(h.view(-1))
    return (h * mask).mean()


def through_detach(model, h):
    mask = torch.zeros_like(h)
    mask.detach()[:, 3] = h[:, 3]
    mask.data[:, 2] = h[:, 2]
    return (h * mask).mean()


def of_a_detach(model, h):
    mask = torch.zeros_like(h)
    part = mask.detach()
    part[:, 3] = h[:, 3]
    return (h * mask).mean() + (h * part).square().mean()


def own_value(model, h):
    with torch.no_grad():
        h[:, 0] *= 2
    return h.square().mean()


def own_weight(model, h):
    with torch.no_grad():
        model.layer.weight[0].mul_(0.5)
    return h.square().mean() + model.layer.weight.square().mean()


def own_data(model, h):
    h.data.clamp_(-0.5, 0.5)
    return h.square().mean()


def two_ways(model, h):
    """Writes to a buffer without gradients, and uses torch.vmap, which the export has to decompose."""
    with torch.no_grad():
        model.q[:4] = h[:4]
    return torch.vmap(lambda row: row * 2)(h @ model.q.t()).mean()


def entropies(model, h):
    rows = F.cross_entropy(h, (h[:, 0] > 0).long(), reduction="none")
    return (rows * h[:, 0].detach().abs()).sum() / h[:, 0].detach().abs().sum()


def autocast_within(model, h):
    with torch.no_grad():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            norm = h.norm()
    return (h / norm + h.detach().requires_grad_(True)).square().mean()


def in_autocast(model, h):
    """torch.export would drop a no_grad region inside an autocast region."""
    with torch.autocast("cpu", enabled=False):
        with torch.no_grad():
            norm = h.norm()
        h = h / norm + h
    return h.square().mean()


@pytest.mark.part(2)
@pytest.mark.parametrize("function", [queue, part_of_another, through_a_view, through_detach, of_a_detach, entropies, in_autocast, autocast_within])
def test_untracked_writes(tmp_path, function):
    model, x = Apply(function), torch.randn(8, 6)
    done = export(model, {"x": x}, tmp_path / "m.pt2")
    assert isinstance(done.inputs["x"][0], str) or function is not entropies, "the batch stays dynamic"
    reference = Apply(function)
    expected = reference(x)
    expected.backward()
    loss, gradients = first_step(tmp_path, tmp_path / "m.pt2", {"x": x})
    assert loss == pytest.approx(float(expected), rel=1e-5)
    for name, parameter in reference.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.grad, rtol=1e-5, atol=1e-7)


def twice_of_a_detach(model, h):
    mask = torch.zeros_like(h)
    part = mask.detach()
    part[:, 3] = h[:, 3]
    mask[:, 2] = h[:, 2]
    return (h * mask).mean() + (h * part).square().mean()


@pytest.mark.parametrize("function", [own_value, own_weight, own_data, twice_of_a_detach])
def test_untracked_writes_of_values_that_require_grad(tmp_path, function):
    export(Apply(function), {"x": torch.randn(8, 6)}, tmp_path / "m.pt2")
    said = subprocess.run([tools_folder() / "ps-compile", "m.pt2", "-o", "p"], cwd=tmp_path, capture_output=True, text=True)
    assert said.returncode == 1 and re.search(r"test_export.py:\d+:.*a value that requires grad", said.stderr), said.stderr


def test_untracked_writes_in_a_model_that_cannot_be_saved(tmp_path):
    with pytest.raises(ExportFailed, match="writes in place.*vmap(.|\n)*test_export.py"):
        export(Apply(two_ways), {"x": torch.randn(8, 6)}, tmp_path / "m.pt2")


def in_mixed_precision(model, h):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with torch.no_grad():
            norm = h.norm()
        h = h / norm + h
    return h.square().mean()


def decorated_in_mixed_precision(model, h):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        h = h / torch.no_grad()(torch.Tensor.norm)(h) + h
    return h.square().mean()


def freezes(model, h):
    model.layer.bias.requires_grad_(False)
    return (h + model.layer.bias).square().mean()


def freezes_a_module(model, h):
    model.layer.requires_grad_(False)
    h = model.layer(h)
    model.layer.requires_grad_(True)
    return h.square().mean()


def freezes_by_attribute(model, h):
    model.layer.bias.requires_grad = False
    return (h + model.layer.bias).square().mean()


IN_AUTOCAST = r"test_export.py:\d+ turns gradients off .* in a region of autocast"
FREEZES = r"test_export.py:\d+ sets requires_grad of a tensor to False"


@pytest.mark.parametrize("function, message", [
    (in_mixed_precision, IN_AUTOCAST), (decorated_in_mixed_precision, IN_AUTOCAST), (freezes, FREEZES),
    (freezes_a_module, FREEZES), (freezes_by_attribute, FREEZES),
])  # fmt: skip
def test_models_that_an_export_would_change(tmp_path, function, message):
    model = Apply(function)
    with pytest.raises(ExportFailed, match=message):
        export(model, {"x": torch.randn(8, 6)}, tmp_path / "m.pt2")
    assert not list(tmp_path.iterdir()) and all(p.requires_grad for p in model.parameters())


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


class Swish(torch.autograd.Function):
    """A Function whose backward equals the derivative of its forward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x.sigmoid()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * x.sigmoid() * (1 + x * (1 - x.sigmoid()))


class MaskedSoftmax(torch.autograd.Function):
    """A Function whose forward overwrites values that its derivative needs, as transformers' XSoftmax does."""

    @staticmethod
    def forward(ctx, x, mask):
        y = x.masked_fill(~mask, -1e9).softmax(-1)
        y.masked_fill_(~mask, 0)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, gradient):
        (y,) = ctx.saved_tensors
        return y * (gradient - (gradient * y).sum(-1, keepdim=True)), None


class Dropped(torch.autograd.Function):
    """A dropout that appends each mask that it draws to a list of the model."""

    @staticmethod
    def forward(ctx, x, counts):
        mask = (torch.rand_like(x) > 0.5) * 2.0
        counts.append(mask)
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0], None


class LeakySoftmax(MaskedSoftmax):
    """A Function whose backward is wrong where the mask is true."""

    @staticmethod
    def backward(ctx, gradient):
        (y,) = ctx.saved_tensors
        return y * gradient, None


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.round()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, gradient):
        return gradient


rounded = Rounded.apply  # bound before the export


class Clipped(torch.autograd.Function):
    """A Function whose backward equals the derivative only for small gradients."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.clamp(-100, 100)


class Scaled(torch.autograd.Function):
    """A Function whose backward returns no gradient for `scale`, which may need none."""

    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(scale)
        return x * scale

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0], None


def hooked(model, h):
    h.register_hook(lambda gradient: 2 * gradient)
    return h.mean()


def hooked_node(model, h):
    h.grad_fn.register_hook(lambda inner, outer: tuple(g if g is None else 2 * g for g in inner))
    return h.mean()


def set_data(model, h):
    h.data = h.data * 2
    return h.mean()


class Frozen(torch.nn.Module):
    """A model with a batch norm in evaluation mode and a batch norm in training mode."""

    def __init__(self):
        super().__init__()
        self.layer, self.frozen, self.norm = torch.nn.Linear(6, 6), torch.nn.BatchNorm1d(6).eval(), torch.nn.BatchNorm1d(6)

    def forward(self, x):
        return self.norm(self.frozen(self.layer(x)).tanh()).square().mul(torch.arange(6)).mean()


def test_modules_in_evaluation_mode(tmp_path):
    """A module in evaluation mode inside a training model stays in evaluation mode; the export restores all modes."""
    model, x = Frozen(), torch.randn(8, 6)
    done = export(model, {"x": x}, tmp_path / "m.pt2")
    assert "exported in evaluation mode: frozen" in done.notes
    assert [part.training for part in (model, model.layer, model.frozen, model.norm)] == [True, True, False, True]
    assert first_step(tmp_path, tmp_path / "m.pt2", {"x": x})[0] == pytest.approx(float(model(x)), rel=1e-5)
    model.eval()
    export(model, {"x": x}, tmp_path / "n.pt2")
    assert not any(part.training for part in model.modules())
    model.train()
    assert first_step(tmp_path, tmp_path / "n.pt2", {"x": x})[0] == pytest.approx(float(model(x)), rel=1e-5)


OWN = [
    ("Reverse", lambda m, h: Reverse.apply(h).mean()),
    ("Rounded", lambda m, h: rounded(h).mean()),
    ("Clipped", lambda m, h: Clipped.apply(h).mean()),
    ("LeakySoftmax", lambda m, h: (LeakySoftmax.apply(h, m.q > 0) * m.q).mean()),
    ("Scaled", lambda m, h: Scaled.apply(m.q, h[0]).mean()),
    ("hook", hooked),
    ("hook", hooked_node),
    ("sets .data", set_data),
]


@pytest.mark.parametrize("name,function", OWN)
def test_custom_gradients(tmp_path, name, function):
    with pytest.raises(ExportFailed, match=rf"{name}(.|\n)*torch.export drops") as failed:
        export(Apply(function), {"x": torch.randn(8, 6)}, tmp_path / "m.pt2")
    assert "test_export.py" in str(failed.value)


def test_custom_backwards_with_random_numbers(tmp_path):
    counts = []
    export(Apply(lambda m, h: Dropped.apply(h, counts).mean()), {"x": torch.randn(8, 6)}, tmp_path / "m.pt2", dynamic_batch=False)
    assert len(counts) == 1, "the check does not change the model's list"


def test_custom_backwards_that_equal_the_derivative(tmp_path):
    reentrant = torch.utils.checkpoint.checkpoint
    model = Apply(lambda m, h: reentrant(Swish.apply, h, use_reentrant=True).mean())
    x = torch.randn(8, 6)
    model.layer.register_full_backward_hook(lambda *_: None)
    assert "backward hooks of modules are not exported: layer" in export(model, {"x": x}, tmp_path / "m.pt2").notes
    loss, _ = first_step(tmp_path, tmp_path / "m.pt2", {"x": x})
    assert loss == pytest.approx(float(model(x)), rel=1e-5)
    handle = model.layer.weight.register_post_accumulate_grad_hook(lambda parameter: None)
    with pytest.raises(ExportFailed, match="parameter layer.weight has a hook .register_post_accumulate_grad_hook"):
        export(model, {"x": x}, tmp_path / "m.pt2")
    handle.remove()
    model.layer.weight.register_hook(lambda gradient: gradient)
    with pytest.raises(ExportFailed, match="parameter layer.weight has a hook"):
        export(model, {"x": x}, tmp_path / "m.pt2")


def rounded_beside(model, h):
    with torch.no_grad():
        scale = rounded(h)
    return (h * scale).mean() + (h * rounded(model.q)).mean() + (h * rounded((h > 0).long())).mean()


RIGHT = {
    "no_grad": rounded_beside,
    "buffer": lambda m, h: Scaled.apply(h, m.q[0]).mean(),
    "in_place": lambda m, h: (MaskedSoftmax.apply(h, m.q > 0) * m.q).mean(),
}


@pytest.mark.parametrize("function", RIGHT.values(), ids=RIGHT)
def test_backwards_that_an_export_keeps(tmp_path, function):
    x, reference = torch.randn(8, 6), Apply(function)
    export(Apply(function), {"x": x}, tmp_path / "m.pt2")
    expected = reference(x)
    expected.backward()
    loss, gradients = first_step(tmp_path, tmp_path / "m.pt2", {"x": x})
    assert loss == pytest.approx(float(expected), rel=1e-5)
    torch.testing.assert_close(gradients["layer.weight"], reference.layer.weight.grad, rtol=1e-5, atol=1e-7)


# ---- losses of each sample ---------------------------------------------------------------------------------------------

WEIGHTS = torch.tensor([1.0, 2, 3, 4, 5, 6])
ROWS = {
    "plain": lambda h, y: F.cross_entropy(h, y, reduction="none"),
    "weights": lambda h, y: F.cross_entropy(h, y, WEIGHTS, reduction="none"),
    "ignored": lambda h, y: F.cross_entropy(h, y, ignore_index=2, reduction="none"),
    "smooth": lambda h, y: F.cross_entropy(h, y, WEIGHTS, label_smoothing=0.1, ignore_index=2, reduction="none"),
    "nll": lambda h, y: F.nll_loss(h.log_softmax(-1), y, WEIGHTS, reduction="none"),
    "image": lambda h, y: F.cross_entropy(
        h[:, :, None, None] * torch.arange(1.0, 5).view(2, 2), y[:, None, None].expand(-1, 2, 2), reduction="none"
    ).sum((1, 2)),
    "bf16": lambda h, y: F.cross_entropy(h.bfloat16(), y, reduction="none").float(),
}


class Rows(nn.Module):
    def __init__(self, loss, decomposed):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.loss, self.decomposed = nn.Linear(6, 6), loss, decomposed

    def forward(self, x, y, weight):
        h = self.layer(x)
        if self.decomposed:
            h = torch.vmap(lambda row: row * 2)(h)  # an archive cannot contain torch.vmap
        return (self.loss(h, y) * weight).mean()


@pytest.mark.part(2)
@pytest.mark.parametrize("decomposed", [False, True], ids=["exported", "decomposed"])
@pytest.mark.parametrize("name", ROWS)
def test_losses_of_each_sample(tmp_path, name, decomposed):
    generator = torch.Generator().manual_seed(2)
    data = {"x": torch.randn(8, 6, generator=generator), "y": torch.arange(8) % 6, "weight": torch.rand(8, generator=generator)}
    model = Rows(ROWS[name], decomposed)
    done = export(model, {n: value[:4] for n, value in data.items()}, tmp_path / "m.pt2")
    assert not done.unsupported and isinstance(done.inputs["x"][0], str)
    expected = model(**data)
    expected.backward()
    loss, gradients = first_step(tmp_path, tmp_path / "m.pt2", data, "--micro-batches", 2)
    tolerance = 1e-2 if name == "bf16" else 1e-5
    assert loss == pytest.approx(float(expected), rel=tolerance)
    for n, parameter in model.named_parameters():
        torch.testing.assert_close(gradients[n], parameter.grad, rtol=tolerance, atol=tolerance * float(parameter.grad.abs().max()))
