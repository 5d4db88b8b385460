// Finds when a rank's memory use peaks, and which buffers cause the peak.
#ifndef PARASHARD_LIB_MEMORY_PEAK_H
#define PARASHARD_LIB_MEMORY_PEAK_H

#include "mlir/IR/BuiltinOps.h"
#include <map>
#include <string>
#include <vector>

namespace parashard::memory {

/// One variable, or all buffers of one result (or of the scratch) of a class function.
struct MemoryHolder {
  std::string kind;  ///< parameter, gradient, ...; value, scratch
  std::string name;  ///< name of a variable, or of the producer of a value
  std::string at;    ///< model source location of the first buffer
  int64_t count = 0; ///< buffers
  int64_t bytes = 0; ///< total of all buffers
};

/// The peak on one rank of a pipeline coordinate.
struct MemoryPeak {
  int64_t coordinate = 0;
  int64_t arenaBytes = 0;
  int64_t hostBytes = 0;             ///< in host memory, separate from the arena
  int64_t variableBytes = 0;         ///< bytes of variables, which are in memory throughout
  int64_t liveBytes = 0;             ///< largest sum of bytes in use at once, with variables
  std::string instant;               ///< the op that runs at the peak
  std::vector<MemoryHolder> holders; ///< largest first
  std::vector<int64_t> inUse;        ///< bytes by op of the program with the peak
  /// By segment: the number of micro-batches whose forward values are live at the peak. Omits the
  /// segment and micro-batch of the run at the peak.
  std::map<int64_t, int64_t> waiting;
};

/// Returns the peak of each coordinate for a module at level `placed`; empty at other levels.
std::vector<MemoryPeak> findPeaks(mlir::ModuleOp module);

} // namespace parashard::memory

#endif
