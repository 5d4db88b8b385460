// Finds when a rank's memory use peaks, and which buffers cause the peak.
#ifndef PARASHARD_LIB_MEMORY_PEAK_H
#define PARASHARD_LIB_MEMORY_PEAK_H

#include "mlir/IR/BuiltinOps.h"
#include <map>
#include <string>
#include <vector>

namespace parashard::memory {

/// One row of the table of memory that `--explain` prints. A row is one of these: a variable; all
/// buffers of one result of a class function; the buffer of one result of another op; the scratch
/// of one run.
struct MemoryHolder {
  std::string kind;  ///< value, scratch, or the kind of a variable: parameter, gradient, ...
  std::string name;  ///< name of the variable, class function or op
  std::string at;    ///< model source line of the variable's use, or of the value's producer
  int64_t count = 0; ///< number of buffers
  int64_t bytes = 0; ///< total bytes of these buffers
};

/// The peak memory use of one rank. All ranks of a pipeline coordinate have the same peak.
struct MemoryPeak {
  int64_t coordinate = 0;
  int64_t arenaBytes = 0;
  int64_t hostBytes = 0;     ///< bytes of offloaded variables and values, outside the arena
  int64_t variableBytes = 0; ///< bytes of the variables in the arena
  /// Most bytes in use at once: variables, values and scratch. Excludes values that a section keeps
  /// for a later section (`ProgramBuffers::kept`).
  int64_t liveBytes = 0;
  std::string instant;               ///< description of the op that runs at the peak
  std::vector<MemoryHolder> holders; ///< largest first
  std::vector<int64_t> inUse;        ///< bytes in use at each op of the program with the peak
  /// By segment: the number of micro-batches whose forward values are live at the peak. If the op
  /// at the peak is a run, the count of this run's segment excludes the run's micro-batch.
  std::map<int64_t, int64_t> waiting;
};

/// Returns the peak of each coordinate for a module at level `placed`. Returns an empty list at
/// other levels. If `entry` is given, such as "step", ignores the programs of other entries.
std::vector<MemoryPeak> findPeaks(mlir::ModuleOp module, llvm::StringRef entry = "");

} // namespace parashard::memory

#endif
