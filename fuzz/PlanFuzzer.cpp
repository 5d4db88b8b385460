// Fuzzes a plan, as ps-compile's `--plan FILE.json` reads it.
#include "fuzz/JsonMutator.h"
#include "fuzz/Scratch.h"
#include "tools/ps-compile/PlanFile.h"
#include <map>
#include <memory>

namespace cl = llvm::cl;

/// A flag of the kind that ps-compile has, which the command line did not give. Its name stands
/// beside those of the libraries.
static cl::Option *findFlag(llvm::StringRef name) {
  static std::map<std::string, std::unique_ptr<cl::Option>> flags;
  auto &[key, flag] = *flags.try_emplace(("plan-" + name).str()).first;
  if (!flag && (name == "ranks" || name == "global-batch"))
    flag = std::make_unique<cl::opt<int64_t>>(llvm::StringRef(key));
  else if (!flag)
    flag = std::make_unique<cl::opt<std::string>>(llvm::StringRef(key));
  flag->reset();
  return flag.get();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string path = fuzz::writeFile("plan.json", data, size);
  fuzz::StayInside watch;
  llvm::consumeError(parashard::readPlanFile(path, findFlag));
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                                          unsigned seed) {
  return fuzz::mutateInput(data, size, maxSize, seed, fuzz::mutateJson);
}
