// Gathers a rank's memory: the bytes in use over a step, and the largest buffers at the peak.
#include "Gather.h"
#include "lib/Memory/Peak.h"

using namespace mlir;
using namespace parashard::memory;
namespace json = llvm::json;

namespace parashard::report {

/// Splits a list into at most `most` parts whose sizes differ by at most one. Returns the maximum
/// of each part.
static json::Array thinOut(llvm::ArrayRef<int64_t> values, size_t most) {
  json::Array thinned;
  size_t parts = std::min(most, values.size());
  for (size_t i = 0; i < parts; ++i) {
    size_t begin = i * values.size() / parts, end = (i + 1) * values.size() / parts;
    thinned.push_back(*llvm::max_element(values.slice(begin, end - begin)));
  }
  return thinned;
}

json::Array listMemory(ModuleOp module) {
  constexpr size_t maxPoints = 800, maxHolders = 40;
  json::Array rows;
  for (const MemoryPeak &peak : findPeaks(module)) {
    json::Array holders;
    for (const MemoryHolder &holder : llvm::ArrayRef(peak.holders).take_front(maxHolders))
      holders.push_back(json::Object{{"kind", holder.kind},
                                     {"what", toText(holder.name)},
                                     {"at", toText(holder.at)},
                                     {"count", holder.count},
                                     {"bytes", holder.bytes}});
    rows.push_back(json::Object{{"pp", peak.coordinate},
                                {"arena_bytes", peak.arenaBytes},
                                {"host_bytes", peak.hostBytes},
                                {"variable_bytes", peak.variableBytes},
                                {"live_bytes", peak.liveBytes},
                                {"instant", toText(peak.instant)},
                                {"in_use", thinOut(peak.inUse, maxPoints)},
                                {"holders", std::move(holders)}});
  }
  return rows;
}

} // namespace parashard::report
