"""Writes the seeds of the fuzz targets `compile` and `passes`: modules of tiny models, and dumps at each level.

    python fuzz/make_modules.py [build/release/bin]        (needs torch; run make_corpus.py first)
"""
import io
import pathlib
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
TOOLS = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else HERE.parent / "build/release/bin").resolve()
sys.path.insert(0, str(HERE.parent / "test/python"))
import models
import torch
from torch.nn import functional as F

CORPUS = HERE / "corpus"
MOST_BYTES = 80000  # limit on the size of a dump


class Images(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(2, 4, 3, padding=1), torch.nn.BatchNorm2d(4)
        self.out = torch.nn.Linear(16, 3)

    def forward(self, x, labels):
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        return F.cross_entropy(self.out(x.flatten(1)), labels)


class Pair(torch.nn.Module):
    """A model of two layers, the minimum for a pipeline."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4, bias=False) for _ in range(2))

    def forward(self, x):
        return self.layers[1](torch.tanh(self.layers[0](x))).square().mean()


def put(target, name, text):
    (CORPUS / target).mkdir(parents=True, exist_ok=True)
    (CORPUS / target / name).write_text(text)


def tool(folder, name, *arguments):
    return subprocess.run([TOOLS / name, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def plain(folder, path):
    """Returns the module's text without locations."""
    return tool(folder, "ps-opt", path)


def put_model(name, folder, flags):
    """Writes the imported module and one dump per level, with the passes that produce the next level."""
    words = " ".join(flag.lstrip("-") for flag in flags)
    put("compile", name, f"// compile: {words}\n" + plain(folder, f"{name}.mlir"))
    arguments = [part for flag in flags for part in flag.split("=", 1)]
    tool(folder, "ps-compile", f"{name}.mlir", "-o", "out", "--weights", "none", "--dump-dir", f"dumps-{name}", *arguments)
    dumps = sorted((folder / f"dumps-{name}").glob("*.mlir"))
    for dump, following in zip(dumps, [*dumps[1:], None]):
        passes = following.read_text().split("\n", 1)[0] if following else "// passes: ps-verify-placed"
        text = passes + "\n" + plain(folder, dump)
        if len(text) <= MOST_BYTES:
            put("passes", f"{name}-{dump.stem}", text)
    text = f"// compile: {words}\n" + plain(folder, dumps[-1])
    if len(text) <= MOST_BYTES:
        put("compile", f"{name}-placed", text)


def put_ops(folder):
    """Writes the models with ops from the corpus of the .pt2 importer, to be compiled for inference."""
    for path in sorted((CORPUS / "pt2").glob("ops-*")):
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as target:
            for section in path.read_bytes().removeprefix(b"=== ").split(b"\n=== "):
                name, content = section.split(b"\n", 1)
                target.writestr(name.decode(), content)
        (folder / "ops.pt2").write_bytes(archive.getvalue())
        tool(folder, "ps-translate", "--import-pt2", "ops.pt2", "-o", "ops.mlir")
        put("compile", path.name, "// compile: inference\n" + plain(folder, "ops.mlir"))


def main():
    gpt = models.gpt(batch=2, length=4, vocabulary=8, width=8, layers=2, heads=2, dropout=0.1)
    mlp = models.mlp(batch=4, features=4, hidden=8, classes=3)
    images = (Images(), {"x": torch.ones(2, 2, 4, 4), "labels": torch.ones(2, dtype=torch.int64)})
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for model in ("gpt", "mlp"):
            {"gpt": gpt, "mlp": mlp}[model].export(folder / f"{model}.pt2")
        torch.export.save(torch.export.export(images[0], (), images[1]), folder / "images.pt2")
        torch.export.save(torch.export.export(Pair(), (), {"x": torch.ones(2, 4)}), folder / "pair.pt2")
        for model, flags in {
            "gpt": ["--mesh=pp=2,tp=2", "--micro-batches=2", "--optimizer=adamw(lr=0.1)", "--clip-norm=1"],
            "mlp": ["--mesh=dp=2,tp=2", "--zero=2", "--optimizer=sgd(lr=0.1,momentum=0.9)", "--precision=bf16"],
            "images": ["--mesh=dp=2", "--zero=1", "--optimizer=sgd(lr=0.1)"],
            "pair": ["--mesh=pp=2,dp=2", "--micro-batches=3", "--schedule=zb-h1", "--optimizer=sgd(lr=0.1)"],
        }.items():  # fmt: skip
            tool(folder, "ps-translate", "--import-pt2", f"{model}.pt2", "-o", f"{model}.mlir")
            put_model(model, folder, flags)
        put_ops(folder)


main()
