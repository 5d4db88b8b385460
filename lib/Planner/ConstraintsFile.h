// Reads constraints on plans from a JSON file.
#ifndef PARASHARD_LIB_PLANNER_CONSTRAINTSFILE_H
#define PARASHARD_LIB_PLANNER_CONSTRAINTSFILE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <string>
#include <vector>

namespace parashard::planner {

/// The constraints of a file.
struct FileConstraints {
  /// Flag and text, as on the command line: {"zero", "0|1"}.
  std::vector<std::pair<std::string, std::string>> flags;
  /// The policy of `tensor_parallel.sharding_plan`, as the text of a file for --sharding-policy:
  /// {"layer2.weight": {"0": ["tp"]}}. The first matching glob wins, so the order of the globs is
  /// kept.
  std::optional<std::string> policy;
};

/// Reads an object of constraints: {"zero": [0, 1], "mesh": "tp=<=8", "precision": "bf16"}. The
/// keys must be in `flags`. A value is a scalar, a list, or the text of a range or "*".
///
/// The keys of veScale are also accepted, either with dots or as nested objects. They are
/// translated to flags:
/// - `pipeline_parallel.split_method`: a method of --split-method, `auto` or `manual`.
/// - `pipeline_parallel.split_points`: the last module of each stage except the last stage. The
///   next stage begins at the module with the next number. Example: "h.2" gives "h.3".
/// - `tensor_parallel.sharding_policy`: --sharding-policy.
/// - `tensor_parallel.sharding_plan`: a file of --sharding-policy, or {"GLOB": ["Shard(dim=0)"]}.
///
/// Fails for unknown keys, with the nearest names.
llvm::Expected<FileConstraints> readConstraintsFile(llvm::StringRef text,
                                                    llvm::ArrayRef<std::string> flags);

} // namespace parashard::planner

#endif
