// Declares what ps-plan records in a plan file about the prediction of the plan.
#ifndef PARASHARD_TOOLS_PLANPREDICTION_H
#define PARASHARD_TOOLS_PLANPREDICTION_H

#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include <optional>
#include <string>

namespace parashard {
namespace support {
class JsonValue;
} // namespace support

/// The value of the key "predicted" of a plan file. No tool relies on the predicted time and
/// memory. The number of parameters tells that a plan was made for another model.
struct PlanPrediction {
  double seconds = 0;      ///< of a step
  int64_t memoryBytes = 0; ///< of the fullest rank
  double mfu = 0;
  std::string cluster; ///< without its number of ranks
  int64_t ranks = 0, globalBatch = 0;
  std::optional<int64_t> parameters; ///< elements of the model's parameters

  llvm::json::Object toJson() const;
  /// Reads an object with some of the keys that `toJson` writes. Fails for an unknown key, and for
  /// a value of another type.
  static llvm::Expected<PlanPrediction> read(const support::JsonValue &value);

  /// Fails if the plan was made for a model with another number of parameters. `path` is the plan
  /// file.
  llvm::Error checkModel(llvm::StringRef path, llvm::StringRef model, int64_t parameters) const;
};

} // namespace parashard

#endif
