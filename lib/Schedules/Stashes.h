// Chooses the values to offload to host memory between two uses, and when the copies run.
#ifndef PARASHARD_LIB_SCHEDULES_STASHES_H
#define PARASHARD_LIB_SCHEDULES_STASHES_H

#include <cstdint>
#include <optional>
#include <vector>

namespace parashard::schedules {

/// Values that are not used in an interval between two steps of a program. A step here is one op of
/// a `rank.program`, not a training step.
struct AwayTime {
  int64_t from = 0; ///< last step that uses the values before the interval
  int64_t to = 0;   ///< first step that uses the values after the interval
  int64_t bytes = 0;
};

/// The steps (as indices) at which the two copies of an `AwayTime` run.
struct StashPosition {
  int64_t gone = 0;  ///< step at which the copy to the host has ended and device memory is free
  int64_t fetch = 0; ///< step at which the copy back to the device begins
};

struct StashProblem {
  std::vector<AwayTime> away;
  std::vector<double> seconds;    ///< by step
  std::vector<int64_t> liveBytes; ///< live bytes by step if no value is offloaded
  double bytesPerSecond = 1;      ///< copy rate in each direction
  /// True: offload only values whose copies are fully hidden by the steps between the two uses.
  /// False: each copy overlaps with one step of nonzero time, even if the copy takes longer than
  /// the step.
  bool onlyHidden = true;
};

/// Returns for each entry of `away` when its copies run, or nullopt if its values stay on the
/// device. Values stay if offloading them would not lower the peak of live bytes, or if the
/// interval is too short. With `onlyHidden`, values also stay if a step would wait for a copy.
/// Copies of one direction run one after another.
///
/// Example: 8 bytes are not used between steps 0 and 5. Each step and each copy takes 1 s. The
/// memory is free from step 2 on, and the copy back begins at step 4: {gone 2, fetch 4}.
std::vector<std::optional<StashPosition>> chooseStashes(const StashProblem &problem);

} // namespace parashard::schedules

#endif
