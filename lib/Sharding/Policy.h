// Policies: what decides the shardings of inputs and parameters before propagation completes them.
#ifndef PARASHARD_LIB_SHARDING_POLICY_H
#define PARASHARD_LIB_SHARDING_POLICY_H

#include "lib/Sharding/ShardingGraph.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace parashard::ps {

/// The sharding that a policy decides for a variable, and why.
struct Seed {
  unsigned variable; ///< node of the graph
  TensorSplits splits;
  std::string reason;
};

/// Splits that a value is offered when all that follows from the other seeds is known, on the axes
/// that split nothing of it yet; and why.
struct LaterSeed {
  unsigned value; ///< node of the graph
  TensorSplits splits;
  std::string reason;
};

/// Every parameter whole.
std::vector<Seed> seedReplicated(const ShardingGraph &graph);

/// Column and row parallel pairs over the tensor axes (Shoeybi et al., Megatron-LM, 2019), found
/// from the graph: the contractions that make an attention's query, key and value are split by
/// heads and the one that takes its result along the same factor; of two contractions with only
/// elementwise and movement ops between, the first is split along its result and the second along
/// what it sums over; a table looked up by an input and the projection before a cross-entropy are
/// split by their vocabulary. What matches nothing gets no seed.
std::vector<Seed> seedMegatron(const ShardingGraph &graph);

/// Beside `seedMegatron`, whose seeds are `variables`: the sequence over the tensor axes
/// (Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models, 2022). The
/// results of the row parallel contractions that take attentions are split along the attention's
/// queries; norms, dropouts, residuals and embeddings follow by propagation, since the tensor axes
/// split nothing of them. Empty where no attention is found, or none has split heads.
std::vector<LaterSeed> seedSequence(const ShardingGraph &graph, llvm::ArrayRef<Seed> variables);

/// The seeds of a JSON text {"GLOB": {"DIM": ["axis", ...]}}, matched on variables' names in order
/// (the first match of a variable wins). `path` is named in errors: a glob that matches nothing, an
/// unknown axis, a dim that is not there, an axis used twice, a key given twice. A glob with
/// wildcards passes over variables without a dim that it names; `notes` says which.
llvm::Expected<std::vector<Seed>> seedFromFile(const ShardingGraph &graph, llvm::StringRef text,
                                               llvm::StringRef path,
                                               std::vector<std::string> &notes);

} // namespace parashard::ps

#endif
