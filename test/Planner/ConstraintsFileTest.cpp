// Tests the reader of constraint files.
#include "lib/Planner/ConstraintsFile.h"
#include "llvm/ADT/StringExtras.h"
#include <gtest/gtest.h>

using namespace parashard::planner;

namespace {

const std::vector<std::string> kFlags = {"mesh", "zero", "batch", "sharding-policy",
                                         "split-method"};

/// Returns the flags as a command line, or the error.
std::string read(llvm::StringRef text) {
  llvm::Expected<FileConstraints> file = readConstraintsFile(text, kFlags);
  if (!file)
    return llvm::toString(file.takeError());
  std::string line;
  for (const auto &[flag, value] : file->flags)
    line += "--" + flag + " " + value + " ";
  return line + file->policy.value_or("");
}

TEST(ConstraintsFile, ReadsValuesListsAndRanges) {
  EXPECT_EQ(read(R"({"zero": [0, 1], "mesh": "pp=2,tp=<=8", "batch": 8})"),
            "--zero 0|1 --mesh pp=2,tp=<=8 --batch 8 ");
  EXPECT_EQ(read(R"({"batch": "*", "zero": ">=1"})"), "--batch * --zero >=1 ");
}

TEST(ConstraintsFile, AcceptsTheKeysOfVeScale) {
  EXPECT_EQ(read(R"({"pipeline_parallel.split_method": "flops",
                     "tensor_parallel.sharding_policy": "megatron"})"),
            "--split-method flops --sharding-policy megatron ");
  EXPECT_EQ(
      read(R"({"pipeline_parallel": {"split_method": "manual", "split_points": ["h.2", "h.5"]},
                     "tensor_parallel": {"sharding_plan": "policy.json"}})"),
      "--split-method h.3,h.6 --sharding-policy policy.json ");
  EXPECT_EQ(read(R"({"pipeline_parallel.split_method": "auto"})"), "");
}

TEST(ConstraintsFile, KeepsTheOrderOfAShardingPlan) {
  std::string policy = read(R"json({"tensor_parallel.sharding_plan":
      {"z.weight": ["Shard(dim=0)"], "a.weight": ["S(-1)"], "*": ["Replicate()"]}})json");
  std::string dense;
  for (char c : policy)
    if (!llvm::isSpace(c))
      dense += c;
  EXPECT_EQ(dense, R"({"z.weight":{"0":["tp"]},"a.weight":{"-1":["tp"]},"*":{}})");
}

TEST(ConstraintsFile, ErrorsNameTheKey) {
  EXPECT_EQ(read("[]"), "expected an object of flags, such as {\"zero\": [0, 1]}");
  EXPECT_EQ(read(R"({"zerro": 1})"), "unknown key \"zerro\"; did you mean 'zero'?");
  std::string scalars = "; expected a whole number, a string such as \"<=8\" or \"*\", or a list "
                        "such as [1, 2]";
  EXPECT_EQ(read(R"({"zero": true})"), "\"zero\" is true" + scalars);
  EXPECT_EQ(read(R"({"zero": ""})"), "\"zero\" is \"\"" + scalars);
  EXPECT_EQ(read(R"({"zero": []})"), "\"zero\" is an empty list" + scalars);
  std::string entries = "; expected a whole number, or a string that is not empty";
  EXPECT_EQ(read(R"({"zero": [1, true]})"), "\"zero\" has the entry true" + entries);
  EXPECT_EQ(read(R"({"zero": [[1]]})"), "\"zero\" has the entry [1]" + entries);
  EXPECT_EQ(read(R"({"pipeline_parallel.split_method": "simulator"})"),
            "\"pipeline_parallel.split_method\" is \"simulator\"; expected uniform, parameters, "
            "flops, time, auto or manual");
  EXPECT_EQ(read(R"({"pipeline_parallel.split_method": "manual"})"),
            "\"pipeline_parallel.split_method\" is \"manual\" and needs "
            "\"pipeline_parallel.split_points\"");
  EXPECT_EQ(read(R"({"pipeline_parallel": {"split_points": ["h.2"], "split_method": "auto"}})"),
            "\"pipeline_parallel.split_method\" is \"auto\", but "
            "\"pipeline_parallel.split_points\" fixes the stages; use \"manual\", or remove the "
            "points");
  EXPECT_EQ(read(R"({"split-method": "time", "pipeline_parallel.split_method": "flops"})"),
            "\"pipeline_parallel.split_method\" is one of two keys for --split-method; keep one of "
            "them");
  EXPECT_EQ(read(R"({"pipeline_parallel.split_points": []})"),
            "\"pipeline_parallel.split_points\" is an empty list; expected the last module of each "
            "stage except the last stage, such as [\"layers.3\"]");
  EXPECT_EQ(read(R"({"tensor_parallel": "auto"})"),
            "\"tensor_parallel\" is \"auto\"; expected an object, such as "
            "{\"sharding_policy\": \"megatron\"}");
  EXPECT_EQ(read(R"({"pipeline_parallel": []})"),
            "\"pipeline_parallel\" is an empty list; expected an object, such as "
            "{\"split_method\": \"flops\"}");
  EXPECT_EQ(read(R"json({"tensor_parallel.sharding_plan": {"w": ["Partial()"]}})json"),
            "\"tensor_parallel.sharding_plan\" has the entry \"w\" with "
            "[\"Partial()\"]; expected the placement on the tensor axis, such as "
            "[\"Shard(dim=0)\"] or [\"Replicate()\"]");
}

} // namespace
