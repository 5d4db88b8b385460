// Lists the flags of compiled programs, so that the compiler's tools can say where such a flag
// belongs. A test compares the list with the table in runtime/main/Flags.cpp. Does not use LLVM.
#ifndef PARASHARD_SHARED_RUNFLAGS_H
#define PARASHARD_SHARED_RUNFLAGS_H

#include <algorithm>
#include <iterator>
#include <string_view>

namespace parashard {

/// The flags of every compiled program, without dashes, sorted.
inline constexpr std::string_view kRunFlags[] = {
    "check",          "check-memory", "comm",      "config",     "data",        "data-type",
    "epochs",         "eval",         "eval-data", "eval-every", "eval-steps",  "export-only",
    "export-weights", "fill",         "gradients", "info",       "keep",        "labels",
    "load",           "log",          "log-every", "losses",     "lr-schedule", "max-file-size",
    "output",         "outputs",      "progress",  "quiet",      "ranks",       "save",
    "save-every",     "seed",         "set",       "shuffle",    "steps",       "threads",
    "trace",          "version",      "weights"};

/// Returns whether compiled programs have a flag. Example: "steps".
inline bool isRunFlag(std::string_view name) {
  return std::find(std::begin(kRunFlags), std::end(kRunFlags), name) != std::end(kRunFlags);
}

} // namespace parashard

#endif
