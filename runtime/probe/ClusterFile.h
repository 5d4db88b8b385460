// Writes measurements as a cluster file (docs/planning.md).
#ifndef PSRT_PROBE_CLUSTERFILE_H
#define PSRT_PROBE_CLUSTERFILE_H

#include "runtime/probe/ProbePlan.h"
#include <optional>

namespace psrt {

/// The machine that was measured.
struct MachineInfo {
  std::string host;  ///< name of the first host
  std::string model; ///< model of the processor or GPU
  double memory = 0; ///< bytes per rank
};

/// Describes this process's host, which `ranks` ranks share. `memory` is the memory of the host, or
/// the limit of the control group if the limit is less, divided by `ranks`.
MachineInfo findMachine(int64_t ranks);

/// Returns the text of the cluster file. `date` has the form 2026-11-26. `note`, if any, is added
/// to the key "source".
std::string printCluster(const std::vector<Probe> &probes, const RankLayout &layout,
                         const Target &target, const MachineInfo &machine, const std::string &date,
                         const std::optional<std::string> &note = std::nullopt);

} // namespace psrt

#endif
