// Declares the predicted and measured times that ps-plan records in a plan file.
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
/// memory. The numbers of parameters and ranks show whether a plan was made for another model, or
/// whether its mesh was edited.
struct PlanPrediction {
  double seconds = 0;      ///< time of a step
  int64_t memoryBytes = 0; ///< memory of the rank that needs most
  double mfu = 0;
  std::string cluster; ///< name of the cluster, without its number of ranks
  int64_t ranks = 0, globalBatch = 0;
  std::optional<int64_t> parameters; ///< number of elements of all parameters of the model

  llvm::json::Object toJson() const;
  /// Reads an object with some of the keys that `toJson` writes. Fails if a key is unknown, if a
  /// value has another type, or if a number is negative.
  static llvm::Expected<PlanPrediction> read(const support::JsonValue &value);

  /// Fails if the plan was made for a model with another number of parameters. `path` is the plan
  /// file.
  llvm::Error checkModel(llvm::StringRef path, llvm::StringRef model, int64_t parameters) const;
  /// Fails if the plan was made for another number of ranks than its mesh has. `mesh` is the mesh
  /// of the file, such as "dp=2,tp=4". A mesh that cannot be parsed is not checked.
  llvm::Error checkRanks(llvm::StringRef path, llvm::StringRef mesh) const;
};

/// The value of the key "measured" of a plan file: times from a trace of the plan's program. No
/// tool relies on these times.
struct PlanMeasurement {
  double seconds = 0; ///< median time of the steps
  double spread = 0;  ///< third minus first quartile of the steps' times, in seconds
  int64_t steps = 0;  ///< number of steps

  llvm::json::Object toJson() const;
  /// Reads an object with some of the keys that `toJson` writes. Fails like `PlanPrediction::read`.
  static llvm::Expected<PlanMeasurement> read(const support::JsonValue &value);
};

} // namespace parashard

#endif
