// Fuzzes the constraints of ps-plan: the reader of `--constraints` files, the parsers of the
// constraints in a file, and the search for contradictions.
#include "fuzz/JsonMutator.h"
#include "lib/Planner/Conflicts.h"
#include "lib/Planner/ConstraintsFile.h"

using namespace parashard::planner;

/// Parses the constraint `text` of a flag, as ps-plan does. Returns false if the constraint is
/// invalid.
static bool readFlag(llvm::StringRef flag, llvm::StringRef text, PlanNumbers &numbers,
                     Constraints &constraints) {
  if (flag == "mesh") {
    auto mesh = parseMeshChoices(text);
    if (!mesh)
      return llvm::consumeError(mesh.takeError()), false;
    constraints.mesh = std::move(*mesh);
    return true;
  }
  if (flag == "ranks" || flag == "global-batch") {
    int64_t &number = flag == "ranks" ? numbers.ranks : numbers.globalBatch;
    constexpr int64_t kMax = 1 << 19;
    return !text.getAsInteger(10, number) && number >= 1 && number <= kMax;
  }
  auto choices = Choices::parse(text);
  if (!choices)
    return llvm::consumeError(choices.takeError()), false;
  if (llvm::Error error = checkChoices(flag, *choices))
    return llvm::consumeError(std::move(error)), false;
  constraints.flags[flag.str()] = std::move(*choices);
  return true;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const std::vector<std::string> flags = {
      "mesh",       "ranks",     "batch",        "micro-batches", "global-batch",   "zero",
      "num-chunks", "recompute", "split-method", "schedule",      "sharding-policy"};
  llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  auto file = readConstraintsFile(text, flags);
  if (!file) {
    llvm::consumeError(file.takeError());
    return 0;
  }
  PlanNumbers numbers{8, "ranks 8", 16, std::nullopt, std::nullopt};
  Constraints constraints;
  for (const auto &[flag, value] : file->flags)
    if (!readFlag(flag, value, numbers, constraints))
      return 0;
  numbers.ranksFlag = "ranks " + std::to_string(numbers.ranks);
  llvm::consumeError(checkConflicts(numbers, constraints));
  numbers.fixedBatch = 8;
  numbers.stages = 4;
  llvm::consumeError(checkConflicts(numbers, constraints));
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                                          unsigned seed) {
  return fuzz::mutateInput(data, size, maxSize, seed, fuzz::mutateJson);
}
