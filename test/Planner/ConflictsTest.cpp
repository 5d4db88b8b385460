// Tests the messages about constraints that contradict each other.
#include "lib/Planner/Conflicts.h"
#include <gtest/gtest.h>

using namespace parashard::planner;

namespace {

/// A problem, written as the flags of ps-plan.
struct Problem {
  PlanNumbers numbers{8, "cluster x:8", 16, std::nullopt, std::nullopt};
  Constraints constraints;

  Problem(int64_t ranks, int64_t globalBatch) {
    numbers.ranks = ranks;
    numbers.ranksFlag = "cluster x:" + std::to_string(ranks);
    numbers.globalBatch = globalBatch;
  }
  Problem &mesh(llvm::StringRef text) {
    constraints.mesh = llvm::cantFail(parseMeshChoices(text));
    return *this;
  }
  Problem &set(llvm::StringRef flag, llvm::StringRef text) {
    constraints.flags[flag.str()] = llvm::cantFail(Choices::parse(text));
    return *this;
  }
  std::string check() const {
    llvm::Error error = checkConflicts(numbers, constraints);
    return error ? llvm::toString(std::move(error)) : "";
  }
};

TEST(Conflicts, PossibleConstraintsAreAccepted) {
  EXPECT_EQ(Problem(8, 16).check(), "");
  EXPECT_EQ(Problem(8, 7).check(), "");
  EXPECT_EQ(Problem(8, 16).mesh("pp=2,tp=<=2").set("schedule", "1f1b|gpipe").check(), "");
  EXPECT_EQ(Problem(8, 16).set("batch", "8").set("micro-batches", "2").set("zero", "3").check(),
            "");
  EXPECT_EQ(Problem(1 << 20, 1 << 20).check(), "");
}

TEST(Conflicts, MessageNamesAxesAndRanks) {
  EXPECT_EQ(
      Problem(4, 16).mesh("pp=8").check(),
      "--mesh pp=8 and --cluster x:4 contradict each other: the sizes of the mesh must multiply to "
      "the 4 ranks; use --mesh pp=2 or 4, or --cluster x:8 or 16");
  EXPECT_EQ(
      Problem(8, 16).mesh("tp=3").check(),
      "--mesh tp=3 and --cluster x:8 contradict each other: the sizes of the mesh must multiply to "
      "the 8 ranks; use --mesh tp=2 or 4, or --cluster x:6 or 9");
  EXPECT_EQ(
      Problem(8, 16).mesh("pp=2,dp=2,tp=4").check(),
      "--mesh pp=2,dp=2,tp=4 and --cluster x:8 contradict each other: the sizes of the mesh must "
      "multiply to the 8 ranks; use --mesh pp=1, or --mesh dp=1, or --mesh tp=2, or --cluster "
      "x:16");
}

TEST(Conflicts, MessageNamesTwoContradictions) {
  EXPECT_EQ(
      Problem(8, 15).mesh("dp=3,pp=5").check(),
      "--mesh dp=3 and --cluster x:8 contradict each other: the sizes of the mesh must multiply to "
      "the 8 ranks; use --mesh dp=2 or 4, or --cluster x:15 or 30; --mesh pp=5 and --cluster x:8 "
      "contradict each other, too");
}

TEST(Conflicts, AnUnknownGlobalBatchIsNoConstraint) {
  EXPECT_EQ(Problem(8, 0).mesh("dp=4").set("batch", "8").check(), "");
  EXPECT_EQ(
      Problem(4, 0).mesh("tp=3").check(),
      "--mesh tp=3 and --cluster x:4 contradict each other: the sizes of the mesh must multiply to "
      "the 4 ranks; use --mesh tp=2 or 4, or --cluster x:3 or 6");
}

TEST(Conflicts, MessageNamesBatches) {
  EXPECT_EQ(Problem(4, 12).set("batch", "8").check(),
            "--batch 8 and --global-batch 12 contradict each other: a step has --batch times "
            "--micro-batches samples; use --batch 4 or 6, or --global-batch 8 or 16");
  EXPECT_EQ(Problem(4, 16).set("batch", "8").set("micro-batches", "4").check(),
            "--batch 8, --micro-batches 4 and --global-batch 16 contradict one another: a step has "
            "--batch times --micro-batches samples, and 8 x 4 is not 16; use --batch 4, or "
            "--micro-batches 2, or --global-batch 32");
  EXPECT_EQ(Problem(4, 65536).set("batch", "2").check(),
            "--batch 2 and --global-batch 65536 contradict each other: a step has --batch times "
            "--micro-batches samples, and at most 16384 micro-batches; use --batch 4 or 8");
  EXPECT_EQ(Problem(4, 7).mesh("dp=4").check(),
            "--mesh dp=4 and --global-batch 7 contradict each other: a step has --batch times "
            "--micro-batches samples; the batch must be a multiple of the number of data-parallel "
            "ranks; use --mesh "
            "dp=1, or --global-batch 4 or 8");
}

TEST(Conflicts, MessageNamesTheExportedBatch) {
  Problem problem(2, 12);
  problem.numbers.fixedBatch = 8;
  EXPECT_EQ(
      problem.check(),
      "--global-batch 12 cannot be met: the export fixes the samples per micro-batch over all "
      "data-parallel ranks at 8; export with a dynamic batch dim to allow other numbers; a step "
      "has "
      "--batch times --micro-batches samples; use --global-batch 8 or 16");
}

TEST(Conflicts, MessageNamesTheRule) {
  EXPECT_EQ(
      Problem(4, 16).mesh("pp=1").set("schedule", "1f1b").check(),
      "--mesh pp=1 and --schedule 1f1b contradict each other: a schedule needs a pipeline axis "
      "of at least 2; use --mesh pp=2 or 4");
  std::string chunks = Problem(4, 16).set("schedule", "1f1b").set("num-chunks", "2").check();
  EXPECT_TRUE(llvm::StringRef(chunks).starts_with(
      "--schedule 1f1b and --num-chunks 2 contradict each other: a schedule allows only some "
      "numbers of chunks (docs/pipelines.md); use --schedule interleaved or "))
      << chunks;
  EXPECT_TRUE(llvm::StringRef(chunks).ends_with(", or --num-chunks 1")) << chunks;
  EXPECT_EQ(Problem(4, 16).mesh("dp=1").set("zero", ">=1").check(),
            "--mesh dp=1 and --zero >=1 contradict each other: ZeRO stages above 0 need at least 2 "
            "data-parallel ranks; use --mesh dp=2 or 4, or --zero 0");
  Problem split(4, 16);
  split.numbers.stages = 3;
  EXPECT_EQ(
      split.check(),
      "--split-method NAME,... and --cluster x:4 contradict each other: the sizes of the mesh must "
      "multiply to the 4 ranks; the modules give 3 stages, which must equal the pipeline axis "
      "times "
      "--num-chunks; use --cluster x:3 or 6");
}

TEST(Conflicts, MessageNamesTheFewestFlags) {
  Problem problem(8, 16);
  problem.mesh("tp=2").set("batch", "5").set("zero", "1").set("recompute", "none");
  EXPECT_EQ(problem.check().substr(0, 42), "--batch 5 and --global-batch 16 contradict");
}

} // namespace
