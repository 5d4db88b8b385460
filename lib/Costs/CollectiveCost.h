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

/// The members of a communicator: all combinations of coordinates along its axes. Example: in the
/// mesh dp=4,tp=2, the axis tp has stride 1 and size 2, and the axis dp has stride 2 and size 4. A
/// group with both axes has all eight ranks.
using Group = llvm::SmallVector<GroupAxis, 2>;

int64_t getGroupSize(const Group &group);

/// Returns, for each tier, how many members of the group share one island of the tier. Example:
/// ranks 0, 2, 4 and 6 (stride 2, size 4), on islands of 4 ranks inside islands of 8 ranks, give 2
/// and 4.
llvm::SmallVector<int64_t, 3> countMembers(const Group &group, llvm::ArrayRef<Tier> tiers);

enum class Collective { AllReduce, AllGather, ReduceScatter, AllToAll, Permute };
/// Returns the name of a collective in the IR and in cluster files, such as "all_reduce".
llvm::StringRef getName(Collective collective);
/// Returns the collective with this name; nullopt for an unknown name.
std::optional<Collective> findCollective(llvm::StringRef name);

/// Returns the seconds of a collective. `bytes` is the size of a rank's operand or result,
/// whichever is larger: the sum for an all-reduce, the gathered tensor for an all-gather, the
/// operand for a reduce-scatter, all parts for an all-to-all, the message for a permute.
///
/// If the group is in one island of the innermost tier, and the cluster has measurements for this
/// number of ranks, the result is interpolated from the measurements. Otherwise, an all-to-all or a
/// permute takes the time of its messages. Any other collective takes the time of the cheapest of
/// these algorithms:
///
/// - Rings (Patarasu and Yuan, 2009). Each member in an island uses its own link to other islands,
///   because NCCL runs one ring per link.
/// - A pair of trees, for an all-reduce: few steps, but each rank sends everything twice (Sanders,
///   Speck and Träff, 2009).
/// - Two levels, for an all-reduce: a reduce-scatter in each island, all-reduces between islands,
///   an all-gather in each island.
double getSeconds(const Cluster &cluster, Collective collective, const Group &group, double bytes);

/// Returns the seconds of a message of `bytes` from one rank to another; 0 if both are the same
/// rank.
double getMessageSeconds(const Cluster &cluster, int64_t from, int64_t to, double bytes);

} // namespace parashard::costs

#endif
