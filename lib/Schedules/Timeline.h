// Draws a replay, or a run that was measured, as a picture.
#ifndef PARASHARD_LIB_SCHEDULES_TIMELINE_H
#define PARASHARD_LIB_SCHEDULES_TIMELINE_H

#include "lib/Schedules/Simulator.h"
#include "llvm/Support/raw_ostream.h"

namespace parashard::schedules {

struct TimelineOptions {
  std::string title;
  std::string unit; ///< of the replay's times, "ms"; empty: none is written
  /// By rank and chunk: what one micro-batch of it holds, in bytes; empty: micro-batches are
  /// counted.
  std::vector<std::vector<int64_t>> liveBytes;
};

/// Writes an SVG picture: ranks as rows, a box for each task in the colour of its phase with its
/// micro-batch's number where that fits, idle time left blank; below, what each rank holds over
/// time. It follows the reader's light or dark scheme and needs nothing from elsewhere.
void writeTimeline(const Replay &replay, const TimelineOptions &options, llvm::raw_ostream &os);

} // namespace parashard::schedules

#endif
