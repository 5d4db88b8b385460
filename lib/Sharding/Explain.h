// The plan in words: why each parameter lies as it does, and every collective of a step.
#ifndef PARASHARD_LIB_SHARDING_EXPLAIN_H
#define PARASHARD_LIB_SHARDING_EXPLAIN_H

#include "lib/Sharding/OpSharding.h"
#include <string>
#include <vector>

namespace parashard::ps {

struct ExplainedParameter {
  std::string name;     ///< as in the model
  std::string type;     ///< 8192x384xf32
  std::string sharding; ///< as printed inside #ps.sharding, without the mesh
  std::string reason;
  int64_t bytes = 0; ///< that one rank holds
};

/// One kind of movement, at all the places where it happens alike.
struct ExplainedCollective {
  std::string kind; ///< all_reduce, reduce_scatter, all_gather, all_to_all
  std::string axes; ///< dp, tp
  std::string when; ///< forward, backward, update, evaluate
  std::string what; ///< "result of ps.contract", "gradient read"
  std::string why;
  std::string location; ///< the first place, as the model's source
  int64_t count = 0;
  int64_t bytes = 0; ///< of all places together: what one rank gives in
};

struct ShardingExplanation {
  std::string mesh;
  std::vector<ExplainedParameter> parameters;
  std::vector<ExplainedCollective> collectives;
};

/// Reads the plan off a module at level 2.
ShardingExplanation explainShardings(mlir::ModuleOp module);
/// As two aligned tables.
void print(const ShardingExplanation &explanation, llvm::raw_ostream &os);

/// On the module: the plan in words, for the levels where the marks on ops are gone.
inline constexpr llvm::StringLiteral kExplanationMark = "ps.explanation";
/// The recorded words; those of the marks where none are recorded.
std::string getExplanation(mlir::ModuleOp module);

} // namespace parashard::ps

#endif
