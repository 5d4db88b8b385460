// The plan in words: why each parameter lies as it does. Its collectives:
// lib/Partition/ExplainCollectives.cpp.
#ifndef PARASHARD_LIB_SHARDING_EXPLAIN_H
#define PARASHARD_LIB_SHARDING_EXPLAIN_H

#include "lib/Sharding/OpSharding.h"
#include <string>
#include <vector>

namespace parashard::ps {

struct ExplainedParameter {
  std::string name;           ///< as in the model
  std::vector<int64_t> shape; ///< of all of it
  std::string dtype;          ///< f32
  std::vector<int64_t> local; ///< the shape that each rank holds
  std::string sharding;       ///< as printed inside #ps.sharding, without the mesh
  std::string reason;
  int64_t bytes = 0; ///< that one rank holds
  VariableOp variable;
};

struct ShardingExplanation {
  std::string mesh;
  std::vector<ExplainedParameter> parameters;
};

/// Reads the plan off a module at level 2.
ShardingExplanation explainShardings(mlir::ModuleOp module);
/// As an aligned table.
void print(const ShardingExplanation &explanation, llvm::raw_ostream &os);

/// A sharding without its mesh: `[{"tp"}, {}]`.
std::string describe(ShardingAttr sharding);
/// `1536 B`, `288 KiB`, `26 MiB`
std::string formatBytes(int64_t bytes);
/// Rows of equally many cells, aligned.
void printTable(llvm::ArrayRef<std::vector<std::string>> rows, llvm::raw_ostream &os);

/// On the module: the plan in words, for the levels where the marks on ops are gone. From level 3
/// on the collectives stand in it too.
inline constexpr llvm::StringLiteral kExplanationMark = "ps.explanation";
/// The recorded words; those of the marks where none are recorded.
std::string getExplanation(mlir::ModuleOp module);

} // namespace parashard::ps

#endif
