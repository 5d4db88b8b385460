// Declares the policies that choose the shardings of parameters before propagation.
#ifndef PARASHARD_LIB_SHARDING_POLICY_H
#define PARASHARD_LIB_SHARDING_POLICY_H

#include "lib/Costs/Cluster.h"
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

/// The choices of a policy.
struct Seeds {
  std::vector<Seed> variables;
  std::vector<LaterSeed> values;
  /// Names what a policy has not found, for a remark; empty: no remark.
  llvm::StringRef unmatched = {};
};

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

/// The remark of `searchSeeds` if it returns no seeds.
inline constexpr llvm::StringLiteral kNoSplitGains =
    "no split over the tensor axes is predicted to be faster";

/// Searches the splits over the tensor axes with the least predicted time of a step on a cluster,
/// from the contractions of the model alone. A beam search adds one split at a time, to all
/// parameters or values with the same place in equal blocks, and propagates. `memoryShare` is the
/// share of the time of a step without splits that all memory of variables and saved values is
/// worth: with 1, half of the memory counts as much as half of the time. The graph must have the
/// splits of the inputs. Afterwards, it has the propagated splits of the seeds, without later ones.
Seeds searchSeeds(ShardingGraph &graph, const costs::Cluster &cluster, double memoryShare);

struct Policy {
  llvm::StringRef name;
  /// True if the seeds depend on ops. If false, `seed` gets a graph of the variables only.
  bool readsOps;
  /// May change the splits of the graph. The cluster is that of the module.
  Seeds (*seed)(ShardingGraph &graph, const costs::Cluster &cluster);
  /// True if `seed` searches, which takes time in proportion to the size of the graph.
  bool isSearch = false;
};

/// Returns the policy with this name, or null.
const Policy *findPolicy(llvm::StringRef name);
/// Lists the values of `--sharding-policy`, for help and errors: "a, b, c or FILE.json".
std::string listPolicies();

/// Returns true if the value of `--sharding-policy` is the text of a sharding file.
bool isInlinePolicy(llvm::StringRef policy);

/// Reads seeds from the JSON text of a sharding file (docs/running.md), in file order:
///
/// - {"GLOB": {"DIM": AXES}} for parameters. Globs match names of parameters. The first match of a
///   parameter wins. A glob with wildcards skips parameters that lack one of its dims, and adds a
///   note to `notes`.
/// - {"PATH:OP": {"DIM": AXES}} for the first results of ops (NamedResults.h), such as
///   "h.*.mlp.c_proj:contract": later seeds for the ops of the model with this name and module
///   path.
///
/// AXES is a list of axes ["tp"], or a list of factors from major to minor [{"size": 6, "axes":
/// ["tp"]}, {"size": 64}]. Fails for a glob without matches, an unknown or pipeline axis, an
/// unknown dim, an axis used twice, factors of another size, or a key given twice. The message
/// names `path`, unless it is empty.
llvm::Expected<Seeds> seedFromFile(const ShardingGraph &graph, llvm::StringRef text,
                                   llvm::StringRef path, std::vector<std::string> &notes);

} // namespace parashard::sharding

#endif
