// Draws a simulated or measured schedule as a picture.
#ifndef PARASHARD_LIB_SCHEDULES_TIMELINE_H
#define PARASHARD_LIB_SCHEDULES_TIMELINE_H

#include "lib/Schedules/Simulator.h"
#include "llvm/Support/raw_ostream.h"

namespace parashard::schedules {

struct TimelineOptions {
  std::string title;
  std::string unit; ///< unit of the times, such as "ms"; empty: times without a unit
  /// Activation bytes of one micro-batch, by pipeline coordinate and chunk. If empty, curves count
  /// micro-batches.
  std::vector<std::vector<int64_t>> liveBytes;
};

/// Writes an SVG picture. Each pipeline coordinate is a row, and each task a box in the color of
/// its phase, with the number of its micro-batch if there is room. Curves below the rows show the
/// live activations of each coordinate over time. The picture follows the reader's light or dark
/// scheme.
void writeTimeline(const Replay &replay, const TimelineOptions &options, llvm::raw_ostream &os);

} // namespace parashard::schedules

#endif
