// Draws a simulated or measured schedule as a picture.
#ifndef PARASHARD_LIB_SCHEDULES_TIMELINE_H
#define PARASHARD_LIB_SCHEDULES_TIMELINE_H

#include "lib/Schedules/Simulator.h"
#include "llvm/Support/raw_ostream.h"

namespace parashard::schedules {

struct TimelineOptions {
  std::string title;
  std::string unit; ///< unit of the times, such as "ms"; empty: none
  /// Activation bytes of one micro-batch, by rank and chunk. If empty, curves count micro-batches.
  std::vector<std::vector<int64_t>> liveBytes;
};

/// Writes an SVG picture. Ranks are rows. Each task is a box in the color of its phase. The box
/// shows the number of the micro-batch if there is room. Idle time is blank. Curves below the rows
/// show the live activations of each rank over time. The picture is self-contained, and follows the
/// reader's light or dark scheme.
void writeTimeline(const Replay &replay, const TimelineOptions &options, llvm::raw_ostream &os);

} // namespace parashard::schedules

#endif
