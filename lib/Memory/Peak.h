// When a rank's memory is fullest, and what fills it.
#ifndef PARASHARD_LIB_MEMORY_PEAK_H
#define PARASHARD_LIB_MEMORY_PEAK_H

#include "mlir/IR/BuiltinOps.h"
#include <map>
#include <string>
#include <vector>

namespace parashard {

/// Buffers that are alike: of one kind, and made by one op of one class.
struct MemoryHolder {
  std::string kind;  ///< parameter, gradient, ...; value, scratch
  std::string what;  ///< a variable's name, or what makes the value
  std::string at;    ///< the model's source; of the first one
  int64_t count = 0; ///< buffers
  int64_t bytes = 0; ///< of all of them
};

/// Of one rank of a pipeline coordinate.
struct MemoryPeak {
  int64_t coordinate = 0;
  int64_t arenaBytes = 0;
  int64_t hostBytes = 0;             ///< of what lies in the host's memory, beside all else
  int64_t variableBytes = 0;         ///< of the variables, which stay
  int64_t liveBytes = 0;             ///< the largest sum of what is in use at once, with them
  std::string instant;               ///< what runs then
  std::vector<MemoryHolder> holders; ///< the largest first
  std::vector<int64_t> inUse;        ///< bytes, by op of the program that is fullest
  /// By segment: micro-batches of which something that forward made waits then for its use.
  std::map<int64_t, int64_t> waiting;
};

/// Of a module at level `placed`, for each coordinate; empty at other levels.
std::vector<MemoryPeak> findPeaks(mlir::ModuleOp module);

} // namespace parashard

#endif
