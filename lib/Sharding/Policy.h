// Declares policies, which choose the shardings of parameters before propagation completes them.
#ifndef PARASHARD_LIB_SHARDING_POLICY_H
#define PARASHARD_LIB_SHARDING_POLICY_H

#include "lib/Sharding/ShardingGraph.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace parashard::sharding {

/// The sharding that a policy chooses for a variable, and the reason.
struct Seed {
  unsigned variable; ///< node of the graph
  TensorSplits splits;
  std::string reason;
};

/// Splits offered to a value after the other seeds have been propagated, on axes that do not split
/// the value yet; and the reason.
struct LaterSeed {
  unsigned value; ///< node of the graph
  TensorSplits splits;
  std::string reason;
};

/// Replicates every parameter.
std::vector<Seed> seedReplicated(const ShardingGraph &graph);

/// Splits column and row parallel pairs over the tensor axes (Shoeybi et al., Megatron-LM, 2019).
/// Pairs are found from the graph:
///
/// - Attention: the contractions that compute query, key and value are split by heads. The
///   contraction that reads the result is split along the same factor.
/// - MLP: of two contractions with only elementwise and movement ops between them, the first is
///   split along its result, and the second along its summed dim.
/// - Vocabulary: a table indexed by an input, and the projection before a cross-entropy, are split
///   along the vocabulary.
///
/// Parameters that match nothing get no seed.
std::vector<Seed> seedMegatron(const ShardingGraph &graph);

/// Splits the sequence over the tensor axes, in addition to `variables`, the seeds of
/// `seedMegatron` (Korthikanti et al., Reducing Activation Recomputation in Large Transformer
/// Models, 2022). The results of the row parallel contractions that read attentions are split along
/// the attention's queries. Norms, dropouts, residuals and embeddings follow by propagation, since
/// the tensor axes do not split them otherwise. Returns no seeds if no attention has split heads.
std::vector<LaterSeed> seedSequence(const ShardingGraph &graph, llvm::ArrayRef<Seed> variables);

/// Splits the rows of embedding tables over the tensor axes, and nothing else: for models whose
/// tables dominate, such as recommenders. A table is read at indices that depend on an input.
std::vector<Seed> seedTables(const ShardingGraph &graph);

/// A policy with a name.
struct Policy {
  llvm::StringRef name;
  /// Whether the seeds depend on ops. If not, `seed` gets a graph of the variables only.
  bool readsOps;
  std::vector<Seed> (*seed)(const ShardingGraph &graph);
  /// Seeds in addition to those of `seed`; null: none.
  std::vector<LaterSeed> (*seedLater)(const ShardingGraph &graph,
                                      llvm::ArrayRef<Seed> variables) = nullptr;
  /// The remark for a mesh with tensor axes and no seeds (of `seedLater` if the policy has it);
  /// empty: none.
  llvm::StringRef unmatched = {};
};

/// Returns the policy that `--sharding-policy` names, or null for another name.
const Policy *findPolicy(llvm::StringRef name);
/// Lists the values of `--sharding-policy`, for help and errors: "a, b, c or FILE.json".
std::string listPolicies();

/// Reads seeds from a JSON text {"GLOB": {"DIM": ["axis", ...]}}. Globs match variables' names in
/// order, and the first match of a variable wins. A glob with wildcards skips variables that lack
/// one of its dims; `notes` lists these variables. Fails for a glob without matches, an unknown
/// axis or dim, an axis used twice, or a key given twice; the message names `path`.
llvm::Expected<std::vector<Seed>> seedFromFile(const ShardingGraph &graph, llvm::StringRef text,
                                               llvm::StringRef path,
                                               std::vector<std::string> &notes);

} // namespace parashard::sharding

#endif
