"""Lists the cases that are compared with PyTorch (models x importers x meshes x micro-batches x optimizers), and mutants:
wrong programs that the comparison must detect.

The tests and scripts/compare-with-pytorch read these lists. Cases are only added, never removed.
"""
import dataclasses
import itertools
import pathlib

import language
import models
import vision

CLUSTERS = pathlib.Path(__file__).resolve().parents[1] / "clusters"


@dataclasses.dataclass(frozen=True)
class Case:
    """A training run that is compared with PyTorch."""

    model: str
    importer: str
    mesh: str
    micro_batches: int
    optimizer: str
    schedule: str = ""  # value of --schedule; empty: no flag
    chunks: int = 1
    zero: int = 0
    policy: str = ""  # value of --sharding-policy; empty: no flag
    recompute: str = ""
    target: str = ""  # value of --target; empty: the CPU
    align: str = ""  # value of --align-dims
    cluster: str = ""  # name of a cluster of test/clusters

    def __str__(self):
        pipeline = f"-{self.schedule}-{self.chunks}" if self.schedule else ""
        zero = f"-zero{self.zero}" if self.zero else ""
        align = f"align{self.align}" if self.align else ""
        rest = "".join(f"-{word}" for word in (self.policy, self.recompute, self.target.replace(":", "-"), align, self.cluster) if word)
        return f"{self.model}-{self.importer}-{self.mesh}-{self.micro_batches}-{self.optimizer}{pipeline}{zero}{rest}"

    def flags(self):
        schedule = ("--schedule", self.schedule, "--num-chunks", self.chunks) if self.schedule else ()
        others = {"--zero": self.zero, "--sharding-policy": self.policy, "--recompute": self.recompute, "--target": self.target,
                  "--align-dims": self.align, "--cluster": CLUSTERS / f"{self.cluster}.json" if self.cluster else ""}  # fmt: skip
        return (*schedule, *itertools.chain.from_iterable(pair for pair in others.items() if pair[1]))


# Models in every combination. The other models, and the ONNX form of all models, are compared on fewer meshes.
FIRST = ["mlp", "gpt", "gpt2", "llama"]
MODELS = [*FIRST, *language.MODELS, *vision.MODELS]
IMPORTERS = ["pt2", "onnx"]
MESHES = ["dp=1", "dp=2", "tp=2", "dp=2,tp=2"]

CASES = [
    *(Case(name, "pt2", *rest)
      for name, *rest in itertools.product(FIRST, [*MESHES, "dp=4", "tp=4"], [1, 4], ["sgd", "adamw"])),
    *(Case(name, importer, mesh, *rest)
      for importer, name, mesh, rest in itertools.product(IMPORTERS, MODELS, MESHES, [(1, "adamw"), (4, "sgd")])
      if importer == "onnx" or name not in FIRST),
]  # fmt: skip

# Models with enough layers for four stages. The models have tied weights, rotary tables, a padding mask, cross attention, long
# skips or running statistics.
CUT = ["gpt2_deep", "llama_deep", "bert", "bart", "unet", "resnet"]
SCHEDULES = {1: ["gpipe", "1f1b", "1f1b-eager", "zb-h1"], 2: ["interleaved", "zb-v"]}
PIPELINE_MESHES = {1: ["pp=2", "pp=4", "dp=2,pp=2", "pp=2,tp=2", "dp=2,pp=2,tp=2"], 2: ["pp=2"]}

# Every model under every schedule on every mesh.
PIPELINES = [
    Case(name, "pt2", mesh, micro_batches, optimizer, schedule, chunks)
    for chunks, meshes in PIPELINE_MESHES.items()
    for name, mesh, schedule, (micro_batches, optimizer) in itertools.product(
        CUT, meshes, SCHEDULES[chunks], [(2, "adamw"), (8, "sgd")])
]  # fmt: skip

# ZeRO splits variables over data-parallel ranks: tied and fused parameters, running statistics, parameters of stages.
ZERO = [
    Case(name, "pt2", mesh, micro_batches, optimizer, zero=stage)
    for name, mesh, stage, (micro_batches, optimizer) in itertools.product(
        ["gpt2", "llama", "bert", "resnet"], ["dp=2", "dp=4", "dp=2,tp=2", "dp=2,pp=2", "dp=2,pp=2,tp=2"], [1, 2, 3], [(1, "adamw"), (4, "sgd")])
    if "resnet" not in name or "tp" not in mesh
]  # fmt: skip

# On the fake driver: every model on one rank, and every parallelism on at least one model.
CUDA = [
    dataclasses.replace(case, target="cuda:replay")
    for case in [
        *(Case(name, "pt2", "dp=1", 1, "adamw") for name in MODELS),
        *(Case(name, "pt2", mesh, 2, "adamw") for name, mesh in itertools.product(["gpt2", "llama"], ["dp=2", "tp=2", "dp=2,tp=2", "dp=4"])),
        *(Case(name, "pt2", mesh, 4, "adamw", schedule, chunks)
          for name, mesh, (schedule, chunks) in itertools.product(
              ["gpt2_deep", "llama_deep"], ["pp=2", "dp=2,pp=2"], [("1f1b", 1), ("zb-h1", 1), ("interleaved", 2)])),
        *(Case(name, "pt2", mesh, 2, "adamw", zero=stage)
          for name, mesh, stage in itertools.product(["gpt2", "llama"], ["dp=2", "dp=2,tp=2"], [1, 2, 3])),
        *(Case(name, "pt2", "tp=2", 2, "sgd", policy="megatron+sp") for name in ["gpt2", "llama"]),
        *(Case("gpt2", "pt2", "dp=1", 2, "sgd", recompute=mode) for mode in ["selective", "full"]),
        Case("resnet", "pt2", "dp=2", 2, "sgd"),
    ]
]  # fmt: skip

# Sequence parallelism. The models have learned or rotary positions, grouped queries, padding, pre- or post-norm, two
# sequence lengths or a class token.
SEQUENCE = [
    *(Case(name, "pt2", mesh, micro_batches, optimizer, policy="megatron+sp")
      for name, mesh, (micro_batches, optimizer) in itertools.product(
          ["gpt", "gpt2", "llama", *language.MODELS, "vit"], ["tp=2", "tp=4", "dp=2,tp=2"], [(1, "adamw"), (4, "sgd")])),
    *(Case(name, "onnx", mesh, 1, "adamw", policy="megatron+sp") for name, mesh in itertools.product(["gpt2", "llama", "bert"], ["tp=2", "dp=2,tp=2"])),
    *(Case(name, "pt2", mesh, 4, "sgd", schedule, chunks, policy="megatron+sp")
      for name, mesh, (schedule, chunks) in itertools.product(
          ["gpt2_deep", "llama_deep", "bert", "bart"], ["pp=2,tp=2", "dp=2,pp=2,tp=2"], [("1f1b", 1), ("zb-h1", 1), ("interleaved", 2)])
      if (name, chunks) != ("bert", 2)),
    *(Case(name, "pt2", mesh, micro_batches, "adamw", zero=stage, policy="megatron+sp", recompute=recompute)
      for name, mesh, micro_batches, (stage, recompute) in itertools.product(
          ["gpt2", "llama", "bert"], ["dp=2,tp=2", "dp=2,pp=2,tp=2"], [1, 4], [(1, "selective"), (2, "full"), (3, "selective"), (3, "")])),
]  # fmt: skip

# Embedding tables whose rows are split over tp: sizes that tp does not divide, a table that is read twice, and a table tied
# to the head.
TABLES = [
    Case(name, "pt2", mesh, micro_batches, optimizer, zero=zero, policy="tables")
    for name, (mesh, zero), (micro_batches, optimizer) in itertools.product(
        ["recommender", "gpt2"], [("tp=2", 0), ("tp=4", 0), ("dp=2,tp=2", 0), ("dp=2,tp=2", 2)], [(1, "adamw"), (4, "sgd")])
]  # fmt: skip

# Searched shardings. On this cluster, communication takes almost no time, so that small models are split, too.
SEARCHED = [
    Case(name, "pt2", mesh, micro_batches, optimizer, zero=zero, policy=policy, cluster="fast-network")
    for name, (mesh, zero), (micro_batches, optimizer), policy in itertools.product(
        MODELS, [("tp=2", 0), ("tp=4", 0), ("dp=2,tp=2", 2)], [(1, "adamw"), (4, "sgd")], ["searched", "searched+memory"])
]  # fmt: skip

# Padded dims (--align-dims) of tied, fused and convolution weights, together with other splits of these dims.
ALIGNED = [
    *(Case(name, "pt2", "dp=1", 1, "adamw", align=align) for name, align in
      itertools.product(["mlp", "gpt", "gpt2", "llama", "bert", "bart", "vit", "resnet"], ["10", "64"])),
    *(Case(name, "pt2", mesh, 2, "adamw", zero=zero, align="10")
      for name, (mesh, zero) in itertools.product(["gpt2", "llama"], [("tp=2", 0), ("dp=2,tp=2", 3), ("dp=4", 1), ("dp=2", 3)])),
    *(Case(name, "pt2", mesh, 4, "sgd", schedule, align="10")
      for name, mesh, schedule in [("gpt2_deep", "pp=2,tp=2", "1f1b"), ("llama_deep", "dp=2,pp=2", "zb-h1")]),
    Case("gpt2", "pt2", "dp=2,tp=2", 2, "adamw", policy="megatron+sp", recompute="selective", align="10"),
    *(Case(name, "pt2", mesh, 2, "adamw", target="cuda:replay", align="16") for name, mesh in itertools.product(["gpt", "llama"], ["dp=1", "tp=2"])),
]  # fmt: skip

# Models with sizes that tp does not divide. Heads, rows of the vocabulary and features are padded; some shards are empty.
ODD = {
    "gpt": lambda: models.gpt(vocabulary=97, width=30, heads=3),
    "gpt2": lambda: models.gpt2(vocabulary=97, width=30, heads=3),
    "llama": lambda: models.llama(vocabulary=97, width=36, hidden=50, heads=6, groups=3),
}


@dataclasses.dataclass
class Mutant:
    """A program that is deliberately wrong: compiled with other flags, or with changed gradients."""

    name: str
    optimizer: str
    flags: tuple = ()
    change: object = None  # a function that changes the gradients, given by name


def halve(gradients):
    return {name: 0.5 * value for name, value in gradients.items()}


MUTANTS = [] if not MODELS else [
    Mutant("decay missing", "adamw(lr=1e-3,betas=(0.9,0.95),eps=1e-8,weight_decay=0)"),
    Mutant("wrong beta2", "adamw(lr=1e-3,betas=(0.9,0.999),eps=1e-8,weight_decay=0.1)"),
    Mutant("coupled L2", "adam(lr=1e-3,betas=(0.9,0.95),eps=1e-8,weight_decay=0.1)"),
    Mutant("wrong eps", "adamw(lr=1e-3,betas=(0.9,0.95),eps=1e-5,weight_decay=0.1)"),
    Mutant(
        "one norm's gradient dropped",
        "adamw(lr=1e-3,betas=(0.9,0.95),eps=1e-8,weight_decay=0.1)",
        flags=("--freeze", "blocks.0.norm_1.weight"),
    ),
    Mutant("gradient halved", "adamw(lr=1e-3,betas=(0.9,0.95),eps=1e-8,weight_decay=0.1)", change=halve),
]
