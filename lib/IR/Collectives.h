// Which ops move data between ranks, and what each is for: words that the partitioner leaves on it.
#ifndef PARASHARD_LIB_IR_COLLECTIVES_H
#define PARASHARD_LIB_IR_COLLECTIVES_H

#include "dialects/ps/Ps.h"
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace parashard::ps {

/// On collectives between ps-partition and ps-explain-collectives: [what, why], two strings.
inline constexpr llvm::StringLiteral kCauseMark = "ps.cause";

bool isCollective(mlir::Operation *op);
/// "result of ps.contract" and "a summed dim is split"
void setCause(mlir::Operation *collective, const llvm::Twine &what, const llvm::Twine &why);

/// One kind of movement, at all the places where it happens alike.
struct ExplainedCollective {
  std::string kind; ///< all_reduce, reduce_scatter, all_gather, all_to_all, permute
  std::string axes; ///< dp, tp
  std::string when; ///< forward, backward, update, evaluate, count
  std::string what, why;
  std::vector<std::string> places; ///< each, as the model's source
  std::vector<int64_t> bytes;      ///< what one rank gives in at each place

  bool isLike(const ExplainedCollective &other) const {
    return std::tie(kind, axes, when, what, why) ==
           std::tie(other.kind, other.axes, other.when, other.what, other.why);
  }
};

/// On the module from level 3 on: the collectives as `ps-explain-collectives` found them, a
/// dictionary for each kind of movement, with the fields above.
inline constexpr llvm::StringLiteral kCollectivesMark = "ps.collectives";
void recordCollectives(mlir::ModuleOp module, llvm::ArrayRef<ExplainedCollective> collectives);
/// Nothing where none were recorded.
std::optional<std::vector<ExplainedCollective>> getCollectives(mlir::ModuleOp module);

} // namespace parashard::ps

#endif
