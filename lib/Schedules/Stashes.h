// Chooses which values move to host memory between two uses, and when the copies run.
#ifndef PARASHARD_LIB_SCHEDULES_STASHES_H
#define PARASHARD_LIB_SCHEDULES_STASHES_H

#include <cstdint>
#include <optional>
#include <vector>

namespace parashard::schedules {

/// Values that no step of a program uses between two steps. A step is one op of a `rank.program`
/// here, not a training step.
struct AwayTime {
  int64_t from = 0; ///< step of the last use before
  int64_t to = 0;   ///< step of the next use
  int64_t bytes = 0;
};

/// When the copies of an `AwayTime` run, as indices of steps.
struct StashPosition {
  int64_t gone = 0;  ///< the copy to the host has ended: device memory is free
  int64_t fetch = 0; ///< the copy back begins
};

struct StashProblem {
  std::vector<AwayTime> away;
  std::vector<double> seconds;    ///< by step
  std::vector<int64_t> liveBytes; ///< live bytes by step if all values stay
  double bytesPerSecond = 1;      ///< copy rate in each direction
  /// True: only offload values whose copies end before the steps that run meanwhile. False: each
  /// copy overlaps with one step that takes time, even if the copy takes longer.
  bool onlyHidden = true;
};

/// Returns for each of `away` when its copies run; nullopt for values that stay. Values stay if
/// steps would wait for their copies, or if the peak of live bytes does not decrease. Copies of one
/// direction run one after another.
/// Example: 8 bytes are unused between steps 0 and 5, a copy takes 1 s and each step takes 1 s. The
/// memory is free from step 2 on, and the copy back begins at step 4: {gone 2, fetch 4}.
std::vector<std::optional<StashPosition>> chooseStashes(const StashProblem &problem);

} // namespace parashard::schedules

#endif
