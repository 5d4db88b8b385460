// Computes the seconds of collectives and messages on the tiers of a cluster.
#ifndef PARASHARD_LIB_COSTS_COLLECTIVECOST_H
#define PARASHARD_LIB_COSTS_COLLECTIVECOST_H

#include "lib/Costs/Cluster.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>

namespace parashard::costs {

/// One mesh axis of a communicator: `size` members, whose rank numbers are `stride` apart.
struct GroupAxis {
  int64_t stride, size;
};

/// The members of a communicator: all combinations of positions on its axes. Example: in the mesh
/// dp=4,tp=2, the axis tp is {1, 2}, dp is {2, 4}, and both together are all eight ranks.
using Group = llvm::SmallVector<GroupAxis, 2>;

int64_t getGroupSize(const Group &group);

/// Returns, for each tier, how many members of the group share one island of the tier. Example: dp
/// = {2, 4} on islands of 4 ranks inside islands of 8 ranks gives 2, 4.
llvm::SmallVector<int64_t, 3> countMembers(const Group &group, llvm::ArrayRef<Tier> tiers);

enum class Collective { AllReduce, AllGather, ReduceScatter, AllToAll, Permute };
/// Returns the name of a collective in the IR and in cluster files: "all_reduce".
llvm::StringRef getName(Collective collective);
/// Returns the collective with a name; nullopt for another text.
std::optional<Collective> findCollective(llvm::StringRef name);

/// Returns the seconds of a collective. `bytes` are those of the larger of a rank's operand and
/// result: the sum for an all-reduce, the gathered tensor for an all-gather, the operand for a
/// reduce-scatter, all parts for an all-to-all, the message for a permute.
///
/// Measurements of the cluster for the same number of ranks count first, if the group lies in one
/// island of the innermost tier. Otherwise, the cheapest of these:
///
/// - Rings (Patarasu and Yuan, 2009). Members on one island use their own links to other islands,
///   since NCCL runs one ring per link.
/// - A pair of trees, for an all-reduce: few steps, but each rank sends everything twice (Sanders,
///   Speck and Träff, 2009).
/// - Two levels, for an all-reduce: a reduce-scatter in each island, all-reduces between islands,
///   an all-gather in each island.
double getSeconds(const Cluster &cluster, Collective collective, const Group &group, double bytes);

/// Returns the seconds of a message of `bytes` from one rank to another. A message to itself takes
/// no time.
double getMessageSeconds(const Cluster &cluster, int64_t from, int64_t to, double bytes);

} // namespace parashard::costs

#endif
