// Explains the sharding of each parameter. lib/Partition/ExplainCollectives.cpp explains
// collectives.
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
  std::string sharding;       ///< as printed inside #ps.sharding, without the mesh
  std::string reason;
  int64_t bytes = 0; ///< bytes on one rank
  ps::VariableOp variable;
};

struct ShardingExplanation {
  std::string mesh;
  std::vector<ExplainedParameter> parameters;
};

/// Reads the plan from a module at level 2.
ShardingExplanation explainShardings(mlir::ModuleOp module);
/// Prints the plan as an aligned table.
void print(const ShardingExplanation &explanation, llvm::raw_ostream &os);

/// Formats a sharding without its mesh. Example: `[{"tp"}, {}]`.
std::string describe(ps::ShardingAttr sharding);
/// Formats a number of bytes. Examples: `1536 B`, `288 KiB`, `26 MiB`.
std::string formatBytes(int64_t bytes);
/// Prints rows with equal numbers of cells as an aligned table.
void printTable(llvm::ArrayRef<std::vector<std::string>> rows, llvm::raw_ostream &os);

/// Returns the text that `ps-explain-shardings{record}` stored, or builds the text from the
/// shardings of the module if none is stored.
std::string getExplanation(mlir::ModuleOp module);

} // namespace parashard::sharding

#endif
