// Finds how many cores other programs use.
#ifndef PSRT_PROBE_COREUSE_H
#define PSRT_PROBE_COREUSE_H

#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <vector>

namespace psrt {

/// The use of the cores of a host during a time span.
struct CoreUse {
  double wall = 0;   ///< length of the time span in seconds
  double busy = 0;   ///< CPU seconds of all programs, summed over the cores
  double own = 0;    ///< CPU seconds of this process, summed over the cores
  int64_t cores = 0; ///< number of cores of the host; 0: unknown
};

/// Returns `busy` and `cores` since the start of the machine. `stat` has the form of /proc/stat,
/// with `ticks` ticks per second. Time that a hypervisor gave to other machines counts as busy;
/// waiting for input and output does not. Example: the line "cpu 300 0 100 5000 70 0 0 0" has 400
/// busy ticks.
CoreUse parseStat(std::istream &stat, double ticks);

/// Returns the use since the start of the machine; `own` since the start of this process.
CoreUse readCoreUse();
/// Returns the use from `begin` to `end`.
CoreUse subtract(const CoreUse &end, const CoreUse &begin);

/// Convert a CoreUse to text and back, to send it to other processes. If the text has another form,
/// `parseCoreUse` returns an unknown use (0 cores).
std::string print(const CoreUse &use);
CoreUse parseCoreUse(const std::string &text);

/// Returns a sentence for the user, without a period, if other programs used cores that the ranks
/// of a host needed; else nullopt. `processes` are the processes of these ranks, with `threads`
/// threads in total. Example: on 4 cores, 2 threads leave 2 cores free, so another program that
/// uses 2 cores gives nullopt.
std::optional<std::string> describeOthers(const std::vector<CoreUse> &processes, int64_t threads);

} // namespace psrt

#endif
