// Explains the shardings of parameters, the forms of attentions and the split activations. For
// collectives, see lib/Partition/ExplainCollectives.cpp.
#ifndef PARASHARD_LIB_SHARDING_EXPLAIN_H
#define PARASHARD_LIB_SHARDING_EXPLAIN_H

#include "lib/Sharding/OpSharding.h"
#include <string>
#include <vector>

namespace parashard::sharding {

struct ExplainedParameter {
  std::string name;           ///< name in the model
  std::vector<int64_t> shape; ///< shape of the whole tensor
  std::string dtype;          ///< such as f32
  std::vector<int64_t> local; ///< shape of the shard on each rank
  std::string sharding;       ///< such as `[{"tp"}, {}]` (see `describe`)
  std::string reason;
  int64_t bytes = 0; ///< bytes on one rank
  ps::VariableOp variable;
};

struct ShardingExplanation {
  std::string mesh; ///< such as `dp = 2 (data), tp = 4 (tensor)`
  std::vector<ExplainedParameter> parameters;
};

/// Returns the mesh and the sharding of each parameter. The module must have a mesh and shardings
/// (level 2).
ShardingExplanation explainShardings(mlir::ModuleOp module);
/// Prints the mesh, and the parameters as an aligned table.
void print(const ShardingExplanation &explanation, llvm::raw_ostream &os);

/// Formats a sharding without its mesh. Example: `[{"tp"}, {}]`.
std::string describe(ps::ShardingAttr sharding);
/// Formats a number of bytes. Examples: `1536 B`, `288 KiB`, `26 MiB`.
std::string formatBytes(int64_t bytes);
/// Prints an aligned table. There must be at least one row, and all rows must have the same number
/// of cells.
void printTable(llvm::ArrayRef<std::vector<std::string>> rows, llvm::raw_ostream &os);

/// Returns the text that `ps-explain-shardings{record}` stored. If none is stored, builds the text
/// from the shardings of the module. Returns "" if the module has no mesh.
std::string getExplanation(mlir::ModuleOp module);

} // namespace parashard::sharding

#endif
