// Draws a simulated or measured schedule as a picture.
#ifndef PARASHARD_LIB_SCHEDULES_TIMELINE_H
#define PARASHARD_LIB_SCHEDULES_TIMELINE_H

#include "lib/Schedules/Simulator.h"
#include "llvm/Support/raw_ostream.h"

namespace parashard::schedules {

struct TimelineOptions {
  std::string title;
  std::string unit; ///< unit of the times, such as "ms"; empty: none
  /// By rank and chunk: bytes that one micro-batch keeps. Empty: the picture counts micro-batches.
  std::vector<std::vector<int64_t>> liveBytes;
};

/// Writes an SVG picture. Ranks are rows; each task is a box in the color of its phase, with the
/// number of its micro-batch if it fits; idle time is blank. Curves below show what each rank keeps
/// over time. The picture follows the reader's light or dark scheme and is self-contained.
void writeTimeline(const Replay &replay, const TimelineOptions &options, llvm::raw_ostream &os);

} // namespace parashard::schedules

#endif
