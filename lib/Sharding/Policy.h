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
/// reason. Only the axes that do not split the value yet are added to its splits.
struct LaterSeed {
  unsigned value; ///< node of the graph
  TensorSplits splits;
  std::string reason;
};

/// The choices of a policy.
struct Seeds {
  std::vector<Seed> variables;
  std::vector<LaterSeed> values;
  /// Text of a remark that says what the policy has not found. Empty: no remark.
  llvm::StringRef unmatched = {};
};

/// Splits column- and row-parallel pairs over the tensor axes (Shoeybi et al., Megatron-LM, 2019):
///
/// - Attention: the weights of the contractions that compute query, key and value are split by
///   heads. The weight of the contraction that reads the attention's result is split along the same
///   factor.
/// - MLP: two contractions with only elementwise and movement ops between them. The weight of the
///   first is split along a result dim, and the weight of the second along its summed dim.
/// - Vocabulary: an embedding table that is indexed by an input, and the projection before a
///   cross-entropy, are split along the vocabulary.
///
/// Parameters that match nothing get no seed.
std::vector<Seed> seedMegatron(const ShardingGraph &graph);

/// Offers to split the sequence over the tensor axes (Korthikanti et al., Reducing Activation
/// Recomputation in Large Transformer Models, 2022). `variables` are the seeds of `seedMegatron`.
/// The result of the row-parallel contraction that reads an attention gets a seed: its dim of the
/// attention's queries is split. Norms, dropouts, residuals and embeddings follow by propagation.
/// Returns no seeds if no such contraction exists.
std::vector<LaterSeed> seedSequence(const ShardingGraph &graph, llvm::ArrayRef<Seed> variables);

/// Splits the rows of embedding tables over the tensor axes, and nothing else. Intended for models
/// that consist mostly of tables, such as recommenders. Ignores embeddings whose indices do not
/// depend on an input.
std::vector<Seed> seedTables(const ShardingGraph &graph);

/// The remark of `searchSeeds` if it returns no seeds.
inline constexpr llvm::StringLiteral kNoSplitGains =
    "no split over the tensor axes is predicted to be faster";

/// Searches the splits over the tensor axes with the least predicted time of a step on a cluster,
/// without looking for known patterns. A beam search adds one split at a time, and propagates it. A
/// split applies to all parameters or values with the same role in equal blocks, such as
/// `h.*.mlp.c_fc.weight`.
///
/// The search minimizes seconds + memoryShare * s0 * bytes / b0. Here, `bytes` counts variables and
/// saved values, and s0 and b0 are the seconds and bytes without splits. Example: with memoryShare
/// 1, saving half of the memory is worth as much as saving half of the time.
///
/// The graph must have the splits of the inputs. Afterwards, the graph has the propagated splits of
/// the seeds, without those of later seeds.
Seeds searchSeeds(ShardingGraph &graph, const costs::Cluster &cluster, double memoryShare);

struct Policy {
  llvm::StringRef name;
  /// True if the seeds depend on ops. If false, the graph passed to `seed` has only variables.
  bool readsOps;
  /// Returns the seeds. May change the splits of the graph. `cluster` is the cluster of the module.
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
/// - {"GLOB": {"DIM": AXES}} for parameters. Globs match names of parameters. For each parameter,
///   the first matching glob wins. A glob with wildcards skips parameters that lack one of its
///   dims, and adds a note to `notes`.
/// - {"PATH:OP": {"DIM": AXES}} for the first results of ops (NamedResults.h): later seeds for the
///   ops of the model with this name and module path. Example of a key: "h.*.mlp.c_proj:contract".
///
/// AXES is a list of axes ["tp"], or a list of factors from major to minor [{"size": 6, "axes":
/// ["tp"]}, {"size": 64}]. Fails for a glob without matches, an unknown or pipeline axis, an
/// unknown dim, an axis used twice, factors that do not multiply to the size of the dim, or two
/// keys for one dim. The message names `path`, unless `path` is empty.
llvm::Expected<Seeds> seedFromFile(const ShardingGraph &graph, llvm::StringRef text,
                                   llvm::StringRef path, std::vector<std::string> &notes);

} // namespace parashard::sharding

#endif
