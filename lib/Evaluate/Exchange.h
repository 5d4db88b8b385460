// Declares the exchange of values between pipeline coordinates under evaluation.
#ifndef PARASHARD_LIB_EVALUATE_EXCHANGE_H
#define PARASHARD_LIB_EVALUATE_EXCHANGE_H

#include "dialects/rank/Rank.h"
#include "lib/Evaluate/Layout.h"
#include <deque>
#include <map>

namespace parashard::evaluate {

/// Matches the ops that pipeline coordinates start in queues, as the runtime does. The n-th ops
/// with the same queue and the same members form one rendezvous. Example: coordinates 0 and 1 start
/// ops in queue "a" with the members {0, 1}. The second of these ops on coordinate 0 and the second
/// one on coordinate 1 form a rendezvous. A rendezvous completes when all members have started
/// their ops, and no earlier rendezvous of the queue is incomplete on any member.
class Exchange {
public:
  using Number = size_t;

  /// Adds `op` of `coordinate` to a rendezvous, and returns the number of the rendezvous. Fails if
  /// `coordinate` is not a member.
  mlir::FailureOr<Number> start(mlir::Operation *op, llvm::StringRef queue,
                                llvm::ArrayRef<int64_t> members, int64_t coordinate,
                                std::vector<PerRank> values);
  /// Completes every rendezvous that can complete. Fails if the ops of its members do not match.
  mlir::LogicalResult settle();
  bool isComplete(Number rendezvous) const { return rendezvousList[rendezvous].isComplete; }
  const std::vector<PerRank> &getContribution(Number rendezvous, int64_t member) const {
    return rendezvousList[rendezvous].parts.at(member).values;
  }
  /// Returns the reduction of the members' values, in ascending order of coordinates.
  std::vector<PerRank> reduce(Number rendezvous, ps::ReductionKind kind) const;

  /// Describes why a rendezvous is not complete. Example: "pipeline coordinate 1 never joins".
  std::string describeMissing(Number rendezvous) const;

private:
  struct Part {
    mlir::Operation *op;
    std::vector<PerRank> values;
  };
  struct Rendezvous {
    std::string queue;
    std::vector<int64_t> members;
    std::map<int64_t, Part> parts; ///< by coordinate
    bool isComplete = false;
  };
  using QueueKey = std::tuple<std::string, std::vector<int64_t>>; ///< queue and members

  bool isOldest(Number rendezvous, int64_t member) const;
  bool canEnd(Number rendezvous) const;

  std::deque<Rendezvous> rendezvousList;
  std::map<QueueKey, std::vector<Number>> numbers;
  std::map<std::pair<QueueKey, int64_t>, size_t>
      started; ///< number of ops that each coordinate has started
  /// Rendezvous that are not complete, by coordinate and queue.
  std::map<std::pair<int64_t, std::string>, std::deque<Number>> queues;
};

} // namespace parashard::evaluate

#endif
