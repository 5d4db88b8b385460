// Declares how pipeline coordinates exchange values under evaluation.
#ifndef PARASHARD_LIB_EVALUATE_EXCHANGE_H
#define PARASHARD_LIB_EVALUATE_EXCHANGE_H

#include "dialects/rank/Rank.h"
#include "lib/Evaluate/Layout.h"
#include <deque>
#include <map>

namespace parashard::evaluate {

/// Rendezvous of pipeline coordinates in queues, as in the runtime. The n-th ops that coordinates
/// start in a queue with the same members belong to one rendezvous. A rendezvous completes when it
/// is the oldest one of its queue on every member. Each member contributes the values of its ranks;
/// ranks with equal coordinates on all other axes are peers.
class Exchange {
public:
  using Number = size_t;

  /// Starts `op` on `coordinate`, as this member's part of a rendezvous. Fails if `coordinate` is
  /// not a member.
  mlir::FailureOr<Number> start(mlir::Operation *op, llvm::StringRef queue,
                                llvm::ArrayRef<int64_t> members, int64_t coordinate,
                                std::vector<PerRank> values);
  /// Completes each rendezvous that can complete. Fails if the ops of its members do not match.
  mlir::LogicalResult settle();
  bool isOver(Number rendezvous) const { return rendezvousList[rendezvous].isOver; }
  const std::vector<PerRank> &getContribution(Number rendezvous, int64_t member) const {
    return rendezvousList[rendezvous].parts.at(member).values;
  }
  /// Returns the reduction of all members' values.
  std::vector<PerRank> reduce(Number rendezvous, ps::ReductionKind kind) const;

  /// Describes why a rendezvous is not complete: "pipeline coordinate 1 never joins".
  std::string describeMissing(Number rendezvous) const;

private:
  struct Part {
    mlir::Operation *op;
    std::vector<PerRank> values;
  };
  struct Rendezvous {
    std::string queue;
    std::vector<int64_t> members;
    std::map<int64_t, Part> parts; ///< one per coordinate
    bool isOver = false;
  };
  using QueueKey = std::tuple<std::string, std::vector<int64_t>>; ///< queue and members

  bool isOldest(Number rendezvous, int64_t member) const;
  bool canEnd(Number rendezvous) const;

  std::deque<Rendezvous> rendezvousList;
  std::map<QueueKey, std::vector<Number>> numbers;
  std::map<std::pair<QueueKey, int64_t>, size_t> started; ///< number of starts per coordinate
  /// Unfinished rendezvous per coordinate and queue.
  std::map<std::pair<int64_t, std::string>, std::deque<Number>> queues;
};

} // namespace parashard::evaluate

#endif
