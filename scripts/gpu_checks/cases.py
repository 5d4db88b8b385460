"""Tables of the programs that are prepared and checked."""
import dataclasses

STEPS = 20  # steps of a compared training run
ARCHIVE = "programs.tar.xz"
MOST_BYTES = 64 << 20  # limit for the size of the archive plus the repository's files; both are copied to the GPU machine
STAGE_SECONDS = 480
TESTS = ["psrt-device-test", "psrt-comm-test"]

ADAMW = ("--optimizer", "adamw(lr=1e-3,weight_decay=0.1)", "--clip-norm", "1.0")
BF16 = ("--precision", "bf16")

# Models of test/python, trained on one rank: name -> (model, mesh, further flags of ps-compile).
PARITY = {
    **{f"{name}-fp32": (name, "dp=1", ()) for name in ["mlp", "gpt", "gpt_dropout", "gpt2", "llama", "bert", "resnet", "unet", "vit"]},
    **{f"{name}-bf16": (name, "dp=1", BF16) for name in ["gpt", "llama"]},
    "gpt-fp16": ("gpt", "dp=1", ("--precision", "fp16")),
    **{f"{name}-{precision}": (name, "dp=1", ("--precision", precision)) for name in ["gpt_middle", "llama_middle"] for precision in ["fp32", "bf16"]},
}  # fmt: skip
# Larger models: heads of size 64, 128 tokens per sample, kernels with many blocks.
MIDDLE = {
    "gpt_middle": ("gpt", {"batch": 8, "length": 128, "vocabulary": 1000, "width": 256, "layers": 4, "heads": 4}),
    "llama_middle": ("llama", {"batch": 8, "length": 128, "vocabulary": 1000, "width": 256, "hidden": 688, "layers": 4, "heads": 4, "groups": 2}),
}
MIDDLE_REHEARSED = {"batch": 2, "length": 16, "vocabulary": 100, "width": 64, "layers": 1}

# Models trained on several ranks: name -> (model, mesh, further flags of ps-compile).
RANKS = {
    "gpt2-dp2": ("gpt2", "dp=2", ()), "gpt2-tp2": ("gpt2", "tp=2", ()), "llama-dp2-tp2": ("llama", "dp=2,tp=2", ()),
    "gpt2-pp2-1f1b": ("gpt2", "pp=2", ("--schedule", "1f1b", "--micro-batches", "4")),
    "gpt2-pp2-zb-h1": ("gpt2", "pp=2", ("--schedule", "zb-h1", "--micro-batches", "4")),
    "llama-zero3": ("llama", "dp=2", ("--zero", "3")),
}  # fmt: skip


@dataclasses.dataclass
class Bench:
    """A model that is large enough to be measured. The PyTorch peer builds the same model from `sizes`."""

    kind: str  # gpt | llama
    sizes: dict
    batch: int
    vocabulary: int
    time: int = 1024

    def spec(self):
        return {"kind": self.kind, "sizes": self.sizes, "batch": self.batch, "vocabulary": self.vocabulary, "time": self.time}

    def rehearsed(self):
        """Returns the model in a size that is small enough for the fake driver."""
        sizes = {"width": 64, "heads": 2, "layers": 1} if self.kind == "gpt" else {"width": 64, "hidden": 96, "heads": 2, "groups": 1, "layers": 1}
        return Bench(self.kind, sizes, 2, 128, 16)


BENCHES = {
    "gpt2-124m": Bench("gpt", {"width": 768, "heads": 12, "layers": 12}, 16, 50304),
    "gpt2-350m": Bench("gpt", {"width": 1024, "heads": 16, "layers": 24}, 8, 50304),
    "gpt2-1.5b": Bench("gpt", {"width": 1600, "heads": 25, "layers": 48}, 4, 50304),
    "llama-1.1b": Bench("llama", {"width": 2048, "hidden": 5632, "heads": 32, "groups": 4, "layers": 22}, 4, 32000),
}
BENCH_UPDATE = ("--optimizer", "adamw(lr=3e-4,weight_decay=0.01)", "--init", "*=normal(0.02)")
BENCH_FLAGS = (*BF16, *BENCH_UPDATE)
SPARE_TOKENS = 50304 - 50257  # rows that pad GPT-2's vocabulary of 50257 to a multiple of 128


@dataclasses.dataclass
class Way:
    """Another program for the model of a bench, compiled with `flags`. With `is_odd`, the model has GPT-2's unpadded vocabulary of 50257."""

    bench: str
    flags: tuple
    is_odd: bool = False


WAYS = {
    "padded": Way("gpt2-124m", (*BENCH_FLAGS, "--align-dims", "auto"), is_odd=True),
    "odd": Way("gpt2-124m", (*BENCH_FLAGS, "--align-dims", "off"), is_odd=True),
    "activated": Way("gpt2-124m", (*BENCH_FLAGS, "--matmul-epilogues", "on")),
    "fp8": Way("llama-1.1b", ("--precision", "fp8", *BENCH_UPDATE)),
}
# Pairs of programs to compare: flag -> (first, second, whether the first must be at least as fast).
COMPARED = {"--align-dims": ("padded", "odd", True), "--matmul-epilogues": ("activated", "gpt2-124m", False),
            "--precision fp8": ("fp8", "llama-1.1b", False)}


def benches(target):
    """Returns the benches for a target. For a fake driver, they are small and have the same names."""
    return {name: bench.rehearsed() for name, bench in BENCHES.items()} if is_rehearsal(target) else BENCHES


def is_rehearsal(target):
    return target.endswith("replay")
