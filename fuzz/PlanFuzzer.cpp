// Fuzzes the reader of plan files, which ps-compile uses for `--plan FILE.json`.
#include "fuzz/JsonMutator.h"
#include "fuzz/Scratch.h"
#include "tools/FlagTable.h"

/// One plan flag of each type. The table is never destroyed, since llvm::cl cannot unregister
/// options.
struct PlanFlags {
  std::string mesh, policy, average;
  int64_t chunks = 1, zero = 0;
  std::optional<int64_t> ranks, globalBatch;
  parashard::FlagTable table;

  PlanFlags() {
    table.addGroup("Fuzzed plan");
    table.add({.name = "mesh", .inPlan = true}, mesh);
    table.add({.name = "sharding-policy", .inPlan = true}, policy);
    table.add({.name = "loss-average", .inPlan = true}, average, {"step", "micro-batch"});
    table.add({.name = "num-chunks", .inPlan = true}, chunks, {1});
    table.add({.name = "zero", .inPlan = true}, zero, {0, 3});
    table.add({.name = "ranks", .inPlan = true}, ranks, {1});
    table.add({.name = "global-batch", .inPlan = true}, globalBatch, {1});
  }
};

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static PlanFlags &flags = *new PlanFlags();
  std::string path = fuzz::writeFile("plan.json", data, size);
  fuzz::StayInside watch;
  llvm::cl::ResetAllOptionOccurrences();
  llvm::Error error = flags.table.readPlan(path);
  llvm::consumeError(error ? std::move(error) : flags.table.assign());
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                                          unsigned seed) {
  return fuzz::mutateInput(data, size, maxSize, seed, fuzz::mutateJson);
}
