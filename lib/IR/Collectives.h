// Declares the records that explain each collective of a step (`ps.cause`, `ps.collectives`).
#ifndef PARASHARD_LIB_IR_COLLECTIVES_H
#define PARASHARD_LIB_IR_COLLECTIVES_H

#include "dialects/ps/Ps.h"
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace parashard::ir {

/// Returns true for `ps.all_reduce`, `reduce_scatter`, `all_gather`, `all_to_all` and `permute`.
bool isCollective(mlir::Operation *op);
/// Records why a collective exists (`ps.cause`). Example: `what` is "result of ps.contract", and
/// `why` is "a summed dim is split".
void setCause(mlir::Operation *collective, const llvm::Twine &what, const llvm::Twine &why);

/// A group of collectives that have the same kind, axes, part of the step and cause. `locations`
/// and `bytes` have one entry per collective.
struct ExplainedCollective {
  std::string kind;      ///< all_reduce, reduce_scatter, all_gather, all_to_all, permute
  std::string axes;      ///< "dp, tp"
  std::string when;      ///< forward, backward, update, evaluate, count
  std::string what, why; ///< as in `setCause`
  std::vector<std::string> locations; ///< source locations in the model
  std::vector<int64_t> bytes;         ///< operand bytes of one rank

  bool isLike(const ExplainedCollective &other) const {
    return std::tie(kind, axes, when, what, why) ==
           std::tie(other.kind, other.axes, other.when, other.what, other.why);
  }
};

/// Stores the collectives of a step on the module (`ps.collectives`), for later levels.
void recordCollectives(mlir::ModuleOp module, llvm::ArrayRef<ExplainedCollective> collectives);
/// Returns the recorded collectives, or nullopt if none were recorded.
std::optional<std::vector<ExplainedCollective>> getCollectives(mlir::ModuleOp module);

} // namespace parashard::ir

#endif
