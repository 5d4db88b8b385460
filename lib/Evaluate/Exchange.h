// What the coordinates of a pipeline give to one another under evaluation.
#ifndef PARASHARD_LIB_EVALUATE_EXCHANGE_H
#define PARASHARD_LIB_EVALUATE_EXCHANGE_H

#include "dialects/rank/Rank.h"
#include "lib/Evaluate/Layout.h"
#include <deque>
#include <map>

namespace parashard {

/// Meetings of pipeline coordinates in queues, as the runtime holds them: the n-th that each
/// coordinate starts in a queue with the same members belong together, and a meeting is over once
/// it is the oldest of its queue on every member. Values are those of the ranks of one coordinate;
/// the others' ranks with equal places are their peers.
class Exchange {
public:
  using Number = size_t;

  /// Starts the part that `op` has on `coordinate`. Errors: `coordinate` is no member.
  mlir::FailureOr<Number> start(mlir::Operation *op, llvm::StringRef queue,
                                llvm::ArrayRef<int64_t> members, int64_t coordinate,
                                std::vector<PerRank> values);
  /// Ends each meeting that can end. Errors: its members do not do the same thing.
  mlir::LogicalResult settle();
  bool isOver(Number meeting) const { return meetings[meeting].isOver; }
  const std::vector<PerRank> &getGiven(Number meeting, int64_t member) const {
    return meetings[meeting].parts.at(member).values;
  }
  /// What all members add up.
  std::vector<PerRank> reduce(Number meeting, ps::ReductionKind kind) const;

  /// Says for whom a meeting waits: "coordinate 1 never joins it".
  std::string describeMissing(Number meeting) const;

private:
  struct Part {
    mlir::Operation *op;
    std::vector<PerRank> values;
  };
  struct Meeting {
    std::string queue;
    std::vector<int64_t> members;
    std::map<int64_t, Part> parts; ///< by coordinate
    bool isOver = false;
  };
  using Place = std::tuple<std::string, std::vector<int64_t>>; ///< queue and members

  bool isOldest(Number meeting, int64_t member) const;
  bool canEnd(Number meeting) const;

  std::deque<Meeting> meetings;
  std::map<Place, std::vector<Number>> numbers;
  std::map<std::pair<Place, int64_t>, size_t> started;                  ///< of a coordinate
  std::map<std::pair<int64_t, std::string>, std::deque<Number>> queues; ///< what is under way
};

} // namespace parashard

#endif
