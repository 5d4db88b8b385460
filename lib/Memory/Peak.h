// Finds when a rank's memory use peaks, and which buffers cause the peak.
#ifndef PARASHARD_LIB_MEMORY_PEAK_H
#define PARASHARD_LIB_MEMORY_PEAK_H

#include "mlir/IR/BuiltinOps.h"
#include <map>
#include <string>
#include <vector>

namespace parashard::memory {

/// One row of the memory table. A row is one of these: a variable; all buffers of one result of a
/// class function; the buffer of one result of another op; the scratch of one run.
struct MemoryHolder {
  std::string kind;  ///< parameter, gradient, ...; value, scratch
  std::string name;  ///< of the variable, class function or op
  std::string at;    ///< model source line of the variable's use, or of the value's producer
  int64_t count = 0; ///< number of buffers
  int64_t bytes = 0; ///< of all these buffers
};

/// The memory use of each rank of a pipeline coordinate, at its peak.
struct MemoryPeak {
  int64_t coordinate = 0;
  int64_t arenaBytes = 0;
  int64_t hostBytes = 0;     ///< of offloaded variables and values, outside of the arena
  int64_t variableBytes = 0; ///< of the variables in the arena
  /// Most bytes in use at once: variables, values and scratch. Excludes values that a section keeps
  /// for a later section (`ProgramBuffers::kept`).
  int64_t liveBytes = 0;
  std::string instant;               ///< description of the op that runs at the peak
  std::vector<MemoryHolder> holders; ///< largest first
  std::vector<int64_t> inUse;        ///< bytes in use at each op of the program with the peak
  /// By segment: the number of micro-batches whose forward values are live at the peak. Does not
  /// count the micro-batch of the run at the peak for the run's own segment.
  std::map<int64_t, int64_t> waiting;
};

/// Returns the peak of each coordinate for a module at level `placed`. Returns an empty list at
/// other levels.
std::vector<MemoryPeak> findPeaks(mlir::ModuleOp module);

} // namespace parashard::memory

#endif
