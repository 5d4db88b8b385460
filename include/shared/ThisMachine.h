// Identifies this machine, for psrt-probe and for tools that run psrt-probe. Shared by compiler and
// runtime; does not use LLVM.
#ifndef PARASHARD_SHARED_THISMACHINE_H
#define PARASHARD_SHARED_THISMACHINE_H

#include <fstream>
#include <string>

namespace parashard {

/// The time budget of psrt-probe in seconds, and the environment variable that changes this budget.
inline constexpr double kProbeSeconds = 40;
inline constexpr const char *kProbeSecondsVariable = "PSRT_PROBE_SECONDS";

/// The first words of a note in the key "source" of a cluster file. The note says that other
/// programs used the machine during the measurement.
inline constexpr const char *kDisturbance = "other programs";

/// Returns the model of the processor, such as "AMD EPYC 7763 64-Core Processor".
inline std::string findProcessor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (size_t colon = line.find(": ");
        line.starts_with("model name") && colon != std::string::npos)
      return line.substr(colon + 2);
  return "unknown CPU";
}

} // namespace parashard

#endif
