// Which values go to the host's memory between two uses, and when they go and come back.
#ifndef PARASHARD_LIB_SCHEDULES_STASHES_H
#define PARASHARD_LIB_SCHEDULES_STASHES_H

#include <cstdint>
#include <optional>
#include <vector>

namespace parashard::schedules {

/// Values that nothing uses between two steps of a program.
struct AwayTime {
  int64_t from = 0; ///< the step that uses them last
  int64_t to = 0;   ///< the step that needs them again
  int64_t bytes = 0;
};

/// Both in front of a step of that number.
struct StashPosition {
  int64_t gone = 0;  ///< the values' memory is free from here on
  int64_t fetch = 0; ///< the copy back begins here
};

struct StashProblem {
  std::vector<AwayTime> away;
  std::vector<double> seconds;    ///< of each step
  std::vector<int64_t> liveBytes; ///< of values, in each step, where all stay
  double bytesPerSecond = 1;      ///< of copies, in each direction
  /// Only what is copied beside steps as long as the copies; otherwise all, with one step of
  /// computation beside each copy.
  bool onlyHidden = true;
};

/// For each of `away` when it goes and comes; nothing for one that stays: because its copies would
/// be waited for, or because the most bytes that are live at once are no fewer without it. Copies
/// of one direction follow one another.
std::vector<std::optional<StashPosition>> chooseStashes(const StashProblem &problem);

} // namespace parashard::schedules

#endif
