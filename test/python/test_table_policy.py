"""`--sharding-policy tables`: the rows of embedding tables are split over tp, and no other parameter is."""
import cases
import lanes
import oracle
import pytest
import test_plan
from conftest import tools_folder

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("case", lanes.cover(cases.TABLES))
def test_equals_pytorch(tmp_path, exports, case):
    comparison = oracle.check_case(tmp_path, exports, case)
    print(comparison)
    assert comparison.failures() == []


def plan(folder, archive, policy):
    """Returns the output of ps-compile, and the collectives of level 3."""
    command = [tools_folder() / "ps-compile", archive, "--mesh", "tp=4", "--sharding-policy", policy, "--no-codegen", "--explain"]
    said = oracle.run([*command, "--dump-dir", folder / policy], folder)
    return said, test_plan.collectives_of((folder / policy / "3-partitioned.mlir").read_text())


def test_a_rank_holds_a_share_of_each_table(tmp_path, exports):
    """Each of 4 ranks has 25 of 97 rows (padded to 100). The other layers are not split."""
    said, _ = plan(tmp_path, oracle.export("recommender", exports), "tables")
    split = [line for line in said.splitlines() if "tables: row parallel" in line]
    assert [line.split()[0] for line in split] == [f"tables.{i}.weight" for i in range(3)]
    assert "97 rows are padded to 100 for 4 shards" in split[0] and "padded" not in split[1]
    text = (tmp_path / "tables/3-partitioned.mlir").read_text()
    assert "tensor<25x8xf32>" in text and "tensor<10x8xf32>" in text and "tensor<16x25xf32>" in text
    assert "not split" not in said and "no parameter" not in said


def test_without_a_table_nothing_is_split(tmp_path, exports):
    """A remark reports this."""
    archive = oracle.export("mlp", exports)
    said, collectives = plan(tmp_path, archive, "tables")
    assert "--sharding-policy tables: no embedding table is indexed by an input; no parameter is split" in said
    assert collectives == plan(tmp_path, archive, "replicated")[1]
