// Estimates the seconds of collectives from the algorithms of communication libraries.
#include "lib/Costs/CollectiveCost.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>

using namespace llvm;

namespace parashard::costs {

int64_t getGroupSize(const Group &group) {
  int64_t size = 1;
  for (const GroupAxis &axis : group)
    size *= axis.size;
  return size;
}

SmallVector<int64_t, 3> countMembers(const Group &group, ArrayRef<Tier> tiers) {
  SmallVector<int64_t, 3> members;
  for (const Tier &tier : tiers) {
    int64_t count = 1;
    for (const GroupAxis &axis : group) {
      bool isWhole = tier.ranks == 0 || axis.stride * axis.size <= tier.ranks;
      count *= isWhole ? axis.size : std::max<int64_t>(1, tier.ranks / axis.stride);
    }
    members.push_back(count);
  }
  // The last tier contains all members, because callers refuse groups larger than the cluster.
  members.back() = getGroupSize(group);
  return members;
}

StringRef getName(Collective collective) {
  switch (collective) {
  case Collective::AllReduce:
    return "all_reduce";
  case Collective::AllGather:
    return "all_gather";
  case Collective::ReduceScatter:
    return "reduce_scatter";
  case Collective::AllToAll:
    return "all_to_all";
  case Collective::Permute:
    return "permute";
  }
  return "";
}

std::optional<Collective> findCollective(StringRef name) {
  for (Collective each : {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter,
                          Collective::AllToAll, Collective::Permute})
    if (getName(each) == name)
      return each;
  return std::nullopt;
}

namespace {

/// A group of ranks on the tiers of a network. `members[t]` is the number of its ranks per island
/// of tier `t`.
class Network {
public:
  Network(ArrayRef<Tier> tiers, const Group &group)
      : tiers(tiers), members(countMembers(group, tiers)) {}
  Network(ArrayRef<Tier> tiers, SmallVector<int64_t, 3> members)
      : tiers(tiers), members(std::move(members)) {}

  int64_t getSize() const { return members.back(); }
  /// Returns the number of members per island of tier `t` - 1, the next inner tier; 1 for tier 0.
  int64_t getInner(size_t t) const { return t == 0 ? 1 : members[t - 1]; }
  /// Returns whether messages between members use tier `t`.
  bool isUsed(size_t t) const { return members[t] > getInner(t); }

  /// Returns the latency of one lap around the ring, in which a chunk visits each member once.
  /// Excludes the time of transfers.
  double getLapLatency() const {
    double latency = 0;
    for (size_t t = 0; t < tiers.size(); ++t) {
      // The islands inside one island of the tier form a chain.
      int64_t hops = getSize() / getInner(t) - getSize() / members[t];
      latency += tiers[t].latency * double(hops);
    }
    return latency;
  }
  /// Returns the seconds of `laps` laps around the ring. In each lap, each of the n members sends
  /// (n - 1) / n of `bytes`.
  double getRing(int64_t laps, double bytes) const {
    double traffic = double(laps) * bytes * double(getSize() - 1) / double(getSize()), slowest = 0;
    for (size_t t = 0; t < tiers.size(); ++t)
      if (isUsed(t))
        slowest = std::max(slowest, traffic / (tiers[t].bandwidth * double(getInner(t))));
    return slowest + double(laps) * getLapLatency();
  }
  /// Returns the seconds of an all-reduce over a tree: partial sums go up, and the result comes
  /// down.
  double getTree(double bytes) const {
    double latency = 0, slowest = 0;
    for (size_t t = 0; t < tiers.size(); ++t) {
      if (!isUsed(t))
        continue;
      latency += tiers[t].latency * std::ceil(std::log2(double(members[t]) / double(getInner(t))));
      slowest = std::max(slowest, 2 * bytes / (tiers[t].bandwidth * double(getInner(t))));
    }
    return slowest + 2 * latency;
  }
  /// Returns the seconds of an all-reduce in two levels: inside the islands of tier `t`, and
  /// between them.
  double getTwoLevels(size_t t, double bytes) const {
    SmallVector<int64_t, 3> inside = members, between = members;
    for (size_t i = 0; i < tiers.size(); ++i) {
      inside[i] = std::min(members[i], members[t]);
      between[i] = std::max<int64_t>(1, members[i] / members[t]);
    }
    Network inner(tiers, inside), outer(tiers, between);
    return inner.getRing(2, bytes) + outer.getAllReduce(bytes / double(members[t]));
  }
  double getAllReduce(double bytes) const {
    double least = std::min(getRing(2, bytes), getTree(bytes));
    for (size_t t = 0; t + 1 < tiers.size(); ++t)
      if (members[t] > 1 && members[t] < getSize())
        least = std::min(least, getTwoLevels(t, bytes));
    return least;
  }
  /// Returns the seconds of an all-to-all: each member sends a part of `bytes` to each other
  /// member.
  double getAllToAll(double bytes) const {
    double slowest = 0, latency = 0;
    for (size_t t = 0; t < tiers.size(); ++t) {
      if (!isUsed(t))
        continue;
      double leaving = bytes * double(getSize() - getInner(t)) / double(getSize());
      slowest = std::max(slowest, leaving / tiers[t].bandwidth);
      latency = std::max(latency, tiers[t].latency);
    }
    return slowest + latency;
  }
  /// Returns the seconds of a message between neighbors, over the slowest tier that the group uses.
  double getMessage(double bytes) const {
    double slowest = 0;
    for (size_t t = 0; t < tiers.size(); ++t)
      if (isUsed(t))
        slowest = std::max(slowest, bytes / tiers[t].bandwidth + tiers[t].latency);
    return slowest;
  }

private:
  ArrayRef<Tier> tiers;
  SmallVector<int64_t, 3> members;
};

} // namespace

/// Returns the measured seconds of a collective over `ranks` ranks; nullopt without measurements.
/// Between two sizes, the logarithm of the time is linear in the logarithm of the size. Below the
/// smallest measured size, the time is that of the smallest size. Above the largest measured size,
/// the bytes per second are those of the largest size.
static std::optional<double> interpolate(ArrayRef<MeasuredCollective> all, int64_t ranks,
                                         double bytes) {
  auto isLess = [](const MeasuredCollective &sample, int64_t n) { return sample.ranks < n; };
  auto begin = llvm::lower_bound(all, ranks, isLess),
       end = llvm::lower_bound(all, ranks + 1, isLess);
  if (begin == end)
    return std::nullopt;
  auto above = std::find_if(begin, end, [&](auto &sample) { return sample.bytes >= bytes; });
  if (above == begin)
    return begin->seconds;
  if (above == end)
    return end[-1].seconds * bytes / end[-1].bytes;
  const MeasuredCollective &below = above[-1];
  double position = std::log(bytes / below.bytes) / std::log(above->bytes / below.bytes);
  return below.seconds * std::pow(above->seconds / below.seconds, position);
}

double getSeconds(const Cluster &cluster, Collective collective, const Group &group, double bytes) {
  int64_t size = getGroupSize(group);
  if (size <= 1 || bytes <= 0)
    return 0;
  Network network(cluster.tiers, group);
  if (countMembers(group, cluster.tiers).front() == size)
    if (auto found = cluster.measured.find(getName(collective).str());
        found != cluster.measured.end())
      if (std::optional<double> seconds = interpolate(found->second, size, bytes))
        return *seconds;
  switch (collective) {
  case Collective::AllReduce:
    return network.getAllReduce(bytes);
  case Collective::AllGather:
  case Collective::ReduceScatter:
    return network.getRing(1, bytes);
  case Collective::AllToAll:
    return network.getAllToAll(bytes);
  case Collective::Permute:
    return network.getMessage(bytes);
  }
  return 0;
}

double getMessageSeconds(const Cluster &cluster, int64_t from, int64_t to, double bytes) {
  if (from == to)
    return 0;
  for (const Tier &tier : cluster.tiers)
    if (tier.ranks == 0 || from / tier.ranks == to / tier.ranks)
      return bytes / tier.bandwidth + tier.latency;
  const Tier &outermost = cluster.tiers.back();
  return bytes / outermost.bandwidth + outermost.latency;
}

} // namespace parashard::costs
