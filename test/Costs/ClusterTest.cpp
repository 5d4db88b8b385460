// Tests the reader of cluster files: presets, values, and errors about invalid files.
#include "lib/Costs/Cluster.h"
#include "llvm/Support/FormatVariadic.h"
#include <gtest/gtest.h>

using namespace parashard::costs;

namespace {

std::string getError(llvm::StringRef text) {
  auto cluster = readCluster(text, "c.json");
  return cluster ? "" : llvm::toString(cluster.takeError());
}

/// Returns the text of a small cluster file, with `from` replaced by `to`.
std::string change(llvm::StringRef from = "", llvm::StringRef to = "") {
  std::string text = R"({"name": "box", "source": "measured", "device": {"target": "cpu:native",
    "memory": "16GB", "memory_bandwidth": "20GB/s", "launch": "1us", "host_bandwidth": "5GB/s",
    "matmul": {"f32": {"peak": "100GFLOP/s", "efficiency": [[1e6, 0.5], [1e8, 0.9]]}}},
    "tiers": [{"name": "box", "ranks": 4, "bandwidth": "5GB/s", "latency": "5us"},
              {"name": "network", "bandwidth": "1GB/s", "latency": "50us"}]})";
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from.str();
  return from.empty() ? text : text.replace(at, from.size(), to.str());
}

TEST(Cluster, ValuesHaveBaseUnits) {
  auto cluster = readCluster(change(), "c.json");
  ASSERT_TRUE(bool(cluster)) << llvm::toString(cluster.takeError());
  EXPECT_EQ(cluster->device.memory, 16e9);
  EXPECT_EQ(cluster->tiers[0].ranks, 4);
  EXPECT_EQ(cluster->tiers[1].bandwidth, 1e9);
  EXPECT_EQ(cluster->getMostRanks(), std::nullopt);
}

TEST(Cluster, EfficiencyIsLinearInTheLogarithm) {
  MatmulRate rate{100e9, {{1e6, 0.5}, {1e8, 0.9}}};
  EXPECT_DOUBLE_EQ(rate.getSeconds(1e7), 1e7 / (100e9 * 0.7));
  EXPECT_DOUBLE_EQ(rate.getSeconds(1e3), 1e3 / (100e9 * 0.5));
  EXPECT_DOUBLE_EQ(rate.getSeconds(1e12), 1e12 / (100e9 * 0.9));
  EXPECT_EQ(rate.getSeconds(0), 0);
}

TEST(Cluster, ErrorsNameTheKeyAndTheValue) {
  EXPECT_EQ(getError(change("\"16GB\"", "\"16XB\"")),
            "c.json: device.memory is \"16XB\"; expected a positive quantity, such as \"80GB\"");
  EXPECT_EQ(getError(change("\"16GB\"", "-3")),
            "c.json: device.memory is -3; expected a positive quantity, such as \"80GB\"");
  EXPECT_EQ(getError(change("\"launch\": \"1us\", ", "")),
            "c.json: device lacks the key \"launch\"");
  EXPECT_EQ(getError(change("\"launch\"", "\"lunch\"")),
            "c.json: device has the unknown key \"lunch\"; did you mean 'launch'?");
  EXPECT_EQ(getError(change("\"network\"", "\"network\", \"ranks\": 6")),
            "c.json: tiers[1] has 6 ranks per island; expected a multiple of the 4 ranks of the "
            "tier \"box\" inside it, at least 8");
  EXPECT_EQ(getError(change("\"network\"", "\"network\", \"ranks\": 4")),
            "c.json: tiers[1] has 4 ranks per island; expected a multiple of the 4 ranks of the "
            "tier \"box\" inside it, at least 8");
  EXPECT_EQ(getError(change("\"ranks\": 4, ", "")),
            "c.json: tiers[0] lacks the key \"ranks\", which only the last tier may omit");
  EXPECT_EQ(
      getError(change("[1e8, 0.9]", "[1e5, 0.9]")),
      "c.json: device.matmul.f32.efficiency has the entry [1e5,0.9]; expected [FLOPS, SHARE] "
      "with positive, ascending flops and a share above 0 and at most 1, such as [1e11, 0.62]");
  EXPECT_EQ(getError(change("[[1e6, 0.5], [1e8, 0.9]]", "[]")),
            "c.json: device.matmul.f32.efficiency is an empty list; expected a list of [FLOPS, "
            "SHARE], such as [[1e11, 0.62]]");
  EXPECT_EQ(getError(change("\"measured\"", "\"\"")),
            "c.json: source is \"\"; expected a string that is not empty");
  EXPECT_EQ(
      getError(change("\"cpu:native\"", "\"tpu:v5\"")),
      "c.json: device.target is \"tpu:v5\"; expected cpu[:NAME] or cuda:sm_NN, as in --target");
  EXPECT_NE(getError("[1"), "");
}

/// Returns the error for a cluster whose last key is `key`.
std::string getErrorOf(llvm::StringRef key, llvm::StringRef value) {
  std::string text = change();
  text.resize(key == "tiers" ? text.find("\"tiers\"") : text.rfind('}'));
  llvm::StringRef front = llvm::StringRef(text).rtrim(", \n");
  return getError((front + ", \"" + key + "\": " + value + "}").str());
}

TEST(Cluster, NeedsATier) {
  EXPECT_EQ(
      getErrorOf("tiers", "[]"),
      "c.json: tiers is an empty list; expected a list of at least one tier, such as {\"name\": "
      "\"network\", \"bandwidth\": \"43GB/s\", \"latency\": \"10us\"}");
}

TEST(Cluster, MeasuredTimesGrowExceptForNoise) {
  EXPECT_EQ(getErrorOf("measured", R"({"all_reduce": []})"),
            "c.json: measured.all_reduce is an empty list; expected a list of [RANKS, BYTES, "
            "SECONDS], such as [[8, \"1MB\", \"79us\"]]");
  EXPECT_EQ(
      getErrorOf("measured",
                 R"({"all_reduce": [[4, "1MB", "100us"], [4, "2MB", "91us"], [2, "9MB", "1us"]]})"),
      "");
  EXPECT_EQ(
      getErrorOf(
          "measured",
          R"({"all_reduce": [[4, "1MB", "100us"], [4, "2MB", "95us"], [4, "3MB", "89us"]]})"),
      "c.json: measured.all_reduce has 89.0 us for 3000000 bytes, but 100 us for 1000000 bytes "
      "on 4 ranks; expected times that grow with the bytes, except for 10 % of noise");
}

TEST(Cluster, EveryPresetIsRead) {
  EXPECT_FALSE(getPresets().empty());
  for (const std::string &name : getPresets()) {
    auto found = findCluster(name);
    ASSERT_TRUE(bool(found)) << llvm::toString(found.takeError());
    EXPECT_EQ(found->cluster.name, name);
  }
}

TEST(Cluster, FlagsNameAPresetAndItsRanks) {
  auto sized = findCluster("h100-sxm:64");
  ASSERT_TRUE(bool(sized)) << llvm::toString(sized.takeError());
  EXPECT_EQ(sized->ranks, 64);
  EXPECT_EQ(findClusterFile("h100-sxm:64"), std::nullopt);
  EXPECT_EQ(findClusterFile("my.json"), "my.json");
  EXPECT_EQ(findClusterFile("a:b/my.json:4"), "a:b/my.json");
  for (auto [flag, text] : {std::pair{"h100", "unknown cluster \"h100\""},
                            {"h100-sxm:0", "\"0\" is not a number of ranks"},
                            {"none.json:4", "none.json cannot be read: No such file or directory"},
                            {"none.json", "none.json cannot be read: No such file or directory"}}) {
    auto wrong = findCluster(flag);
    ASSERT_FALSE(bool(wrong));
    std::string message = llvm::toString(wrong.takeError());
    EXPECT_NE(message.find(text), std::string::npos) << message;
  }
}

} // namespace
