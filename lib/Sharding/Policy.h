// Declares the policies that choose the shardings of parameters before propagation.
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

/// Splits that a policy offers to a value after the other seeds have been propagated, and the
/// reason. The value takes the splits on axes that do not split it yet.
struct LaterSeed {
  unsigned value; ///< node of the graph
  TensorSplits splits;
  std::string reason;
};

std::vector<Seed> seedReplicated(const ShardingGraph &graph);

/// Splits column- and row-parallel pairs over the tensor axes (Shoeybi et al., Megatron-LM, 2019):
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

/// Offers to split the sequence over the tensor axes, in addition to `variables`, the seeds of
/// `seedMegatron` (Korthikanti et al., Reducing Activation Recomputation in Large Transformer
/// Models, 2022). The row-parallel contraction that reads an attention gets a seed along the
/// attention's queries. Norms, dropouts, residuals and embeddings follow by propagation. Returns no
/// seeds if no such contraction exists.
std::vector<LaterSeed> seedSequence(const ShardingGraph &graph, llvm::ArrayRef<Seed> variables);

/// Splits the rows of embedding tables over the tensor axes, and nothing else: for models whose
/// tables dominate, such as recommenders. Only embeddings whose indices depend on an input count.
std::vector<Seed> seedTables(const ShardingGraph &graph);

struct Policy {
  llvm::StringRef name;
  /// True if the seeds depend on ops. If false, `seed` gets a graph of the variables only.
  bool readsOps;
  std::vector<Seed> (*seed)(const ShardingGraph &graph);
  /// Returns later seeds, in addition to those of `seed`; null: none.
  std::vector<LaterSeed> (*seedLater)(const ShardingGraph &graph,
                                      llvm::ArrayRef<Seed> variables) = nullptr;
  /// Remark if the mesh has tensor axes, but `seedLater` (or `seed`, if there is no `seedLater`)
  /// returns no seeds; empty: no remark.
  llvm::StringRef unmatched = {};
};

/// Returns the policy with this name, or null.
const Policy *findPolicy(llvm::StringRef name);
/// Lists the values of `--sharding-policy`, for help and errors: "a, b, c or FILE.json".
std::string listPolicies();

/// Reads seeds from a JSON text {"GLOB": {"DIM": ["axis", ...]}}. Globs match the names of
/// parameters, in file order; the first match of a parameter wins. A glob with wildcards skips
/// parameters that lack one of its dims, and adds a note to `notes`. Fails for a glob without
/// matches, an unknown or pipeline axis, an unknown dim, an axis used twice, or a key given twice.
/// The message names `path`.
llvm::Expected<std::vector<Seed>> seedFromFile(const ShardingGraph &graph, llvm::StringRef text,
                                               llvm::StringRef path,
                                               std::vector<std::string> &notes);

} // namespace parashard::sharding

#endif
