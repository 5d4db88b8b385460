"""ps-plan refuses invalid values, constraints and files. The errors name the reason and say what to change."""

import json
import re

import models
import pytest
from conftest import ROOT
from conftest import run_tool as run


@pytest.fixture(scope="module")
def gpt(tmp_path_factory):
    archive = tmp_path_factory.mktemp("gpt") / "gpt.pt2"
    models.gpt_dynamic(layers=2).export(archive)
    return archive


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A cluster file with the figures of a preset for GPUs."""
    path = tmp_path_factory.mktemp("cluster") / "my.json"
    path.write_text((ROOT / "clusters/h100-sxm.json").read_text())
    return path


@pytest.fixture(scope="module")
def plan(gpt, cluster, tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    done = run("ps-plan", gpt, "--cluster", f"{cluster}:2", "--global-batch", 8, "--mesh", "dp=2", "--precision", "bf16", "-o", path)
    assert done.returncode == 0, done.stderr
    return path


# The names of the policies, from the help: "megatron, ... or FILE.json".
POLICIES = re.search(r"shardings of the weights: (.*? or FILE\.json)", " ".join((ROOT / "test/help/ps-plan.txt").read_text().split()))[1]

# fmt: off
VALUES = [
    (["--zero", "4"], "--zero takes a number from 0 to 3, not '4'"),
    (["--zero", "0|4"], "--zero takes a number from 0 to 3, not '4'"),
    (["--zero", ">=4"], "--zero '>=4' contains none of the searched values; the search tries 0, 1, 2 and 3"),
    (["--schedule", "foo"], "--schedule: unknown schedule 'foo'; the nearest names are"),
    (["--schedule", "1f1b|foo"], "--schedule: unknown schedule 'foo'; the nearest names are"),
    (["--recompute", "foo"], "--recompute takes none, selective, full, full+communication, modules=GLOB,... or budget=BYTES, not 'foo'"),
    (["--recompute", "budget=1GB"], "--recompute 'budget=1GB' is not searched; the search tries none, selective and full"),
    (["--num-chunks", "0"], "--num-chunks takes a number of at least 1, not '0'"),
    (["--num-chunks", "5"], "--num-chunks '5' is not searched; the search tries 1, 2, 3 and 4"),
    (["--sharding-policy", "{bad"], "--sharding-policy: line 1, column 2: expected a key in double quotes"),
    (["--sharding-policy", "foo"], f"--sharding-policy takes {POLICIES}, not 'foo'"),
    (["--sharding-policy", "none.json"], "--sharding-policy 'none.json' is not a readable file"),
    (["--micro-batches", "0"], "--micro-batches takes a number of at least 1, not '0'"),
    (["--mesh", "tp=1,x"], "--mesh: 'tp=1|x': "),
    (["--mesh", "tp=auto"], "--mesh: 'tp=auto': a size is a whole number from 1 to 1048576"),
    (["--precision", "fp7"], "--precision takes fp32, bf16, fp16, half or fp8"),
    (["--precision", "*"], "--precision takes one value, not '*': the search does not choose it"),
    (["--precision", "bf16|fp16"], "--precision takes one value, not 'bf16|fp16': the search does not choose it"),
    (["--split-method", "foo"], "--split-method foo: no layer has the module path 'foo'; the nearest names are"),
    (["--overlap", "0"], "--overlap takes auto, off, or a number of chunks (at least 1), not '0'"),
    (["--target", "cuda:sm_70"], "--target cuda:sm_70: unsupported architecture; use cuda:sm_80 or a later one"),
    (["--target", "cuda:foo"], "--target takes cpu[:NAME] or cuda:sm_NN, not 'cuda:foo'"),
    (["--loss", "none"], "--loss none: a program without a loss has no training step to plan"),
    (["--offload", "optimizer"], "--offload optimizer: a search does not predict the memory of offloaded tensors"),
    (["--why-not", "foo=3"], '--why-not "foo=3" takes an axis or a searched flag'),
]
CONFLICTS = [
    (["--mesh", "pp=8"], "--mesh pp=8 and --cluster cpu-mpi:4 contradict each other"),
    (["--batch", "3"], "--batch 3 and --global-batch 8 contradict each other"),
    (["--batch", "8", "--micro-batches", "4"], "8 x 4 is not 8; use --batch 2, or --micro-batches 1, or --global-batch 32"),
    (["--mesh", "pp=1", "--schedule", "1f1b"], "a schedule needs a pipeline axis of at least 2; use --mesh pp=2 or 4"),
    (["--mesh", "dp=1", "--zero", "1"], "--mesh dp=1 and --zero 1 contradict each other"),
    (["--split-method", "blocks.0,blocks.1"], "the modules give 3 stages, which must equal the pipeline axis times --num-chunks"),
]
# fmt: on


@pytest.mark.parametrize(("flags", "words"), VALUES + CONFLICTS, ids=lambda value: "-".join(value) if isinstance(value, list) else "")
def test_the_error_names_the_flag_and_what_to_change(gpt, flags, words):
    done = run("ps-plan", gpt, "--cluster", "cpu-mpi:4", "--global-batch", 8, *flags)
    assert words in done.stderr
    assert done.returncode == 2


@pytest.mark.parametrize(("flags", "status", "words"), [
    (["--global-batch", "7", "--mesh", "dp=4"], 2, "use --mesh dp=1, or --global-batch 4 or 8"),
    (["--global-batch", "1"], 1, "dim s72 (input_ids.0, labels.0) is 1; the export allows 2 to"),
    (["--global-batch", "99999999"], 2, "--global-batch 99999999: a search takes at most 4194304 samples"),
])  # fmt: skip
def test_a_global_batch_without_a_plan(gpt, flags, status, words):
    done = run("ps-plan", gpt, "--cluster", "cpu-mpi:4", *flags)
    assert words in done.stderr
    assert done.returncode == status


def test_the_global_batch_follows_from_batch_and_micro_batches(gpt):
    done = run("ps-plan", gpt, "--cluster", "cpu-mpi:2", "--mesh", "dp=2", "--batch", 8, "--micro-batches", 4, "-o", "-")
    assert done.returncode == 0 and json.loads(done.stdout)["predicted"]["global-batch"] == 32, done.stderr


def test_a_model_without_a_batch_dim_is_not_searched(gpt):
    done = run("ps-plan", gpt, "--cluster", "cpu-mpi:2", "--global-batch", 8, "--batch-dim", "none")
    assert done.returncode == 1 and "no input of the model has a batch dim, so no plan can divide a global batch" in done.stderr


def test_a_schedule_demands_a_pipeline(gpt):
    done = run("ps-plan", gpt, "--cluster", "cpu-mpi:2", "--global-batch", 8, "--schedule", "gpipe,1f1b", "-o", "-")
    assert done.returncode == 0 and json.loads(done.stdout)["mesh"] == "pp=2", done.stderr


def test_one_micro_batch_may_have_the_largest_batch_of_the_export(gpt):
    """The class table of a plan has two data-parallel ranks, unless the export does not allow twice the samples."""
    done = run("ps-plan", gpt, "--cluster", "cpu-mpi:2", "--global-batch", 1009, "--mesh", "tp=2", "-o", "-")
    assert done.returncode == 0 and json.loads(done.stdout)["batch"] == 1009, done.stderr


def test_more_ranks_than_a_mesh_can_have(gpt):
    done = run("ps-plan", gpt, "--cluster", "cpu-mpi", "--ranks", 2**62, "--global-batch", 8)
    assert "--ranks 4611686018427387904: a mesh on cpu-mpi has at most 524288 ranks" in done.stderr
    assert done.returncode == 2


def test_the_time_limit_is_the_reason(gpt):
    done = run("ps-plan", gpt, "--cluster", "h100-sxm:1024", "--global-batch", 4096, "--time-limit", 1)
    if done.returncode == 0:
        assert "the time limit ended the search" in done.stdout
        assert "note: --time-limit 1 ended the search; a longer one may find a faster plan" in done.stderr
    else:
        assert "--time-limit 1 ended the search before it found a plan" in done.stderr


def test_more_memory_than_a_device_has(gpt):
    done = run("ps-plan", gpt, "--cluster", "cpu-mpi:2", "--global-batch", 4, "--mesh", "dp=2", "--memory", "100TB")
    assert "warning: --memory 100TB is more than the 7629 MiB of a device of --cluster cpu-mpi;" in done.stderr
    assert done.returncode == 0


def test_a_search_does_not_name_the_batch_of_the_export(gpt):
    done = run("ps-plan", gpt, "--cluster", "cpu-mpi:2", "--global-batch", 4, "--mesh", "dp=2")
    assert done.returncode == 0 and done.stderr == ""


def test_an_output_replaces_no_input(gpt, cluster, plan, tmp_path):
    constraints = tmp_path / "constraints.json"
    constraints.write_text("{}")
    (tmp_path / "a" / "plan-1.json").mkdir(parents=True)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "plan-2.json").write_text("{}")
    search = ["ps-plan", gpt, "--cluster", f"{cluster}:2", "--global-batch", 8]
    finalists = [*search, "--finalists", 2]
    for line, output, words in [
        (search, gpt, "is the model itself"),
        (search, cluster, "is read by --cluster"),
        ([*search, "--constraints", constraints], constraints, "is read by --constraints"),
        (finalists, "-", "--finalists writes several plans; give a folder to -o, such as -o plans"),
        (finalists, tmp_path / "a", f"--finalists: output '{tmp_path}/a/plan-1.json' is a folder; remove this folder, or give another one to -o"),
        ([*finalists, "--constraints", tmp_path / "b/plan-2.json"], tmp_path / "b", "plan-2.json' is read by --constraints; give another folder to -o"),
        (["ps-plan", gpt, "--predict", "--plan", plan], plan, "is read by --plan"),
        (["ps-compile", gpt, "--cluster", f"{cluster}:1"], cluster, "is read by --cluster"),
        (search, tmp_path / "none" / "plan.json", "none' does not exist; create it first"),
    ]:
        done = run(*line, "-o", output)
        assert words in done.stderr and done.returncode == 2, done.stderr


def test_a_plan_goes_to_standard_output(gpt):
    done = run("ps-plan", gpt, "--cluster", "cpu-mpi:2", "--global-batch", 4, "--mesh", "dp=2", "-o", "-")
    assert json.loads(done.stdout)["mesh"] == "dp=2" and " priced in " in done.stderr


@pytest.mark.parametrize(("change", "words"), [
    ({"device": {"target": "tpu"}}, 'device.target is "tpu"; expected cpu[:NAME] or cuda:sm_NN, as in --target'),
    ({"tiers": []}, "tiers is an empty list; expected a list of at least one tier"),
    ({"measured": {"all_reduce": [[2, "1MB", "9us"], [2, "2MB", "5us"]]}}, "measured.all_reduce has 5.00 us for 2000000 bytes, but 9.00 us for 1000000 bytes"),
])  # fmt: skip
def test_a_cluster_that_cannot_be(gpt, cluster, tmp_path, change, words):
    content = json.loads(cluster.read_text())
    for key, value in change.items():
        content[key] = content[key] | value if key == "device" else value
    (tmp_path / "c.json").write_text(json.dumps(content))
    done = run("ps-plan", gpt, "--cluster", f"{tmp_path / 'c.json'}:2", "--global-batch", 8)
    assert f"c.json: {words}" in done.stderr and done.returncode == 2


def test_a_plan_has_its_target_and_its_prediction(gpt, cluster, plan):
    content = json.loads(plan.read_text())
    assert (content["target"], content["precision"], content["cluster"]) == ("cuda:sm_90", "bf16", str(cluster))
    assert set(content["predicted"]) == {"step_s", "memory_bytes", "mfu", "cluster", "ranks", "global-batch", "parameters"}
    assert content["predicted"]["ranks"] == 2 and content["predicted"]["global-batch"] == 8
    price = json.loads(run("ps-plan", gpt, "--plan", plan, "--predict").stdout)
    assert price["step_s"] == pytest.approx(content["predicted"]["step_s"]) and min(price["breakdown"].values()) >= 0
    done = run("ps-compile", gpt, "--plan", plan, "-o", plan.with_suffix(".program"), "--dump-dir", plan.parent / "levels")
    assert done.returncode == 0 and "warning" not in done.stderr, done.stderr
    assert ".target sm_90" in (plan.parent / "levels" / "6-native.ptx").read_text()


def test_a_program_for_another_target_than_its_cluster_has_a_warning(gpt, cluster, tmp_path):
    words = "the program is for cpu:native, but the cluster h100-sxm has cuda:sm_90; give --target cuda:sm_90"
    flags = ["--cluster", "h100-sxm", "-o", tmp_path / "out"]
    assert words in run("ps-compile", gpt, *flags).stderr
    assert words not in run("ps-compile", gpt, *flags, "--target", "cpu").stderr


@pytest.mark.parametrize("tool", ["ps-compile", "ps-plan"])
@pytest.mark.parametrize(("predicted", "words"), [
    ({"parameters": 7}, "made for a model with 7 parameters, but"),
    ({"parameter": 7}, "\"predicted\" has the unknown key \"parameter\"; did you mean 'parameters'?"),
    ({"mfu": "high"}, '"predicted": "mfu" is "high"; expected a number'),
    ({"step_s": -1}, '"predicted": "step_s" is -1; expected a number of at least 0'),
    ({"ranks": 4}, "made for 4 ranks, but its mesh dp=2 has 2"),
    (3, '"predicted" is 3; expected the object that ps-plan writes'),
])  # fmt: skip
def test_a_plan_of_another_model_is_refused(gpt, plan, tmp_path, tool, predicted, words):
    (tmp_path / "p.json").write_text(json.dumps(json.loads(plan.read_text()) | {"predicted": predicted}))
    flags = ["--predict"] if tool == "ps-plan" else ["--no-codegen"]
    done = run(tool, gpt, "--plan", tmp_path / "p.json", *flags)
    assert words in done.stderr and done.returncode == 2


@pytest.mark.parametrize(("flags", "words"), [
    (["--memory", "1GB"], "--memory is for a search, and --predict prices one plan"),
    (["--time-limit", "3"], "--time-limit is for a search, and --predict prices one plan"),
    (["--constraints", "c.json"], "--constraints is for a search, and --predict prices one plan"),
    (["--global-batch", "8"], "--global-batch 8 needs --batch B, where B divides 8"),
    (["--mesh", "dp=auto"], 'mesh axis "dp" has size auto; sizes are 1 or more, or *'),
    (["--mesh", "dp=3"], "--cluster cpu-mpi:4 has 4 ranks, but --mesh dp=3 has 3"),
])  # fmt: skip
def test_a_prediction_ignores_no_flag(gpt, flags, words):
    done = run("ps-plan", gpt, "--predict", "--cluster", "cpu-mpi:4", *flags)
    assert words in done.stderr and done.returncode == 2


def test_a_prediction_fills_the_mesh_with_the_ranks_of_the_cluster(gpt):
    prices = [run("ps-plan", gpt, "--predict", "--cluster", "cpu-mpi:4", "--mesh", mesh).stdout for mesh in ["dp=*,tp=2", "dp=2,tp=2"]]
    assert prices[0] == prices[1] and json.loads(prices[0])["step_s"] > 0


def test_constraints_in_a_file(gpt, tmp_path):
    (tmp_path / "c.json").write_text(json.dumps({"mesh": "pp=2,dp=2", "zero": [1, 2], "cluster": "cpu-mpi:4", "global-batch": 8, "batch": "<=4"}))
    search = ["ps-plan", gpt, "--constraints", tmp_path / "c.json", "-o", tmp_path / "plan.json"]
    done = run(*search)
    assert done.returncode == 0, done.stderr
    content = json.loads((tmp_path / "plan.json").read_text())
    assert content["mesh"] == "pp=2,dp=2" and content["zero"] in (1, 2) and content["batch"] <= 4
    assert run(*search, "--zero", "0", "--mesh", "dp=4").returncode == 0  # the command line takes precedence
    content = json.loads((tmp_path / "plan.json").read_text())
    assert content["mesh"] == "dp=4" and content["zero"] == 0
    (tmp_path / "c.json").write_text('{"zerro": 1}')
    done = run(*search)
    assert "unknown key \"zerro\"; did you mean 'zero'?" in done.stderr and done.returncode == 2


def test_constraints_of_vescale(gpt, tmp_path):
    constraints = {"pipeline_parallel.split_method": "manual", "pipeline_parallel": {"split_points": ["blocks.0"]},
                   "tensor_parallel.sharding_plan": {"wte.weight": ["Shard(dim=0)"], "*": ["Replicate()"]}, "mesh": "pp=2,tp=2"}  # fmt: skip
    (tmp_path / "c.json").write_text(json.dumps(constraints))
    search = ["ps-plan", gpt, "--constraints", tmp_path / "c.json", "--cluster", "cpu-mpi:4", "--global-batch", 8]
    done = run(*search, "-o", tmp_path / "plan.json")
    assert done.returncode == 0, done.stderr
    content = json.loads((tmp_path / "plan.json").read_text())
    assert content["split-method"] == "blocks.1" and content["sharding-policy"] == '{"wte.weight":{"0":["tp"]},"*":{}}'
    done = run("ps-compile", gpt, "--plan", tmp_path / "plan.json", "--explain", "--no-codegen")
    assert done.returncode == 0, done.stderr
