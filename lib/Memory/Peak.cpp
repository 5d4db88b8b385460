// Computes the bytes in use at each op of a program, and finds the peak.
#include "lib/Memory/Peak.h"
#include "RecomputeTime.h"
#include "dialects/ps/Refusal.h"
#include "lib/Fusion/ClassBuffers.h"
#include "lib/Fusion/Fused.h"
#include "lib/IR/Stages.h"
#include "lib/Memory/Buffers.h"
#include "lib/Sharding/Explain.h"
#include "lib/Sharding/Reasons.h"
#include "parashard/Levels.h"
#include "parashard/Memory.h"
#include "shared/PrintableText.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FormatVariadic.h"
#include <set>

using namespace mlir;
using namespace parashard;
using namespace parashard::memory;
using namespace parashard::fusion;

namespace {
/// Returns the op that produces a buffer of a program. For a result of a run, returns the op in the
/// class function that computes the result.
Operation *findProducer(const Buffer &buffer, SymbolTable &symbols) {
  auto run = dyn_cast<rank::RunOp>(buffer.op);
  if (!run || buffer.result < 0)
    return buffer.op;
  auto callee = symbols.lookup<func::FuncOp>(run.getCallee());
  Value value = callee.getBody().front().getTerminator()->getOperand(buffer.result);
  Operation *producer = value.getDefiningOp();
  while (producer && isView(producer) && producer->getOperand(0).getDefiningOp())
    producer = producer->getOperand(0).getDefiningOp();
  return producer ? producer : buffer.op;
}

/// Describes an op of a program. Example: "blocks.backward_input of blocks.5 (model.py:40),
/// micro-batch 3".
std::string describeInstant(Operation *op) {
  auto run = dyn_cast<rank::RunOp>(op);
  if (!run)
    return op->getName().getStringRef().str();
  std::string text = run.getCallee().str();
  if (std::string location = sharding::describeLocation(run.getLoc()); !location.empty())
    text += " of " + location;
  if (auto number = run->getAttrOfType<IntegerAttr>(kMicroBatchMark))
    text += ", micro-batch " + std::to_string(number.getInt());
  return text;
}

class PeakFinder {
public:
  PeakFinder(ModuleOp module, SymbolTable &symbols, int64_t coordinate)
      : module(module), symbols(symbols) {
    peak.coordinate = coordinate;
    peak.arenaBytes = getArenaBytes(module, coordinate).value_or(0);
    if (std::optional<HostPart> host = getHostPart(module, coordinate))
      peak.hostBytes = host->bytes;
  }

  MemoryPeak find(StringRef entry) {
    addVariables();
    for (auto program : module.getOps<rank::ProgramOp>())
      if (int64_t(program.getPp()) == peak.coordinate &&
          (entry.empty() || program.getEntry() == entry))
        read(program);
    llvm::MapVector<std::pair<Operation *, int>, MemoryHolder> alike;
    for (const Buffer &buffer : fullest)
      addTo(alike, buffer);
    countWaiting();
    for (auto &[key, holder] : alike)
      peak.holders.push_back(std::move(holder));
    peak.liveBytes += peak.variableBytes;
    for (int64_t &bytes : peak.inUse)
      bytes += peak.variableBytes;
    llvm::stable_sort(peak.holders, [](const MemoryHolder &a, const MemoryHolder &b) {
      return a.bytes > b.bytes;
    });
    return std::move(peak);
  }

private:
  void addVariables() {
    for (auto variable : module.getOps<ps::VariableOp>()) {
      if (!getVariableAddress(variable, peak.coordinate) || variable->hasAttr(kHostMark))
        continue;
      auto type = variable.getTensorType();
      if (ps::MeshOp mesh = ps::getMesh(module); mesh && variable.getSharding())
        type = ps::getLocalType(type, variable.getSharding(), mesh);
      int64_t bytes = ps::getByteSize(type);
      peak.variableBytes += bytes;
      auto location = variable->getAttrOfType<StringAttr>(kUsedAtMark);
      peak.holders.push_back({ps::stringifyVariableKind(variable.getKind()).str(),
                              variable.getDisplayName().str(), location ? location.str() : "", 1,
                              bytes});
    }
  }

  /// Records the peak of a program if it is the largest so far.
  void read(rank::ProgramOp program) {
    ProgramBuffers buffers = findProgramBuffers(program, symbols);
    std::vector<Operation *> ops;
    for (Operation &op : program.getBody().front())
      ops.push_back(&op);
    std::vector<int64_t> changes(ops.size() + 2);
    for (const Buffer &buffer : buffers.shared) {
      changes[buffer.lifetime.begin] += buffer.lifetime.bytes;
      changes[buffer.lifetime.end + 1] -= buffer.lifetime.bytes;
    }
    changes.pop_back();
    int64_t sum = 0;
    for (int64_t &change : changes)
      change = sum += change;
    int64_t when = llvm::max_element(changes) - changes.begin();
    if (changes[when] <= peak.liveBytes)
      return;
    peak.liveBytes = changes[when];
    peak.inUse = std::move(changes);
    fullest.clear();
    running = when < int64_t(ops.size()) ? dyn_cast<rank::RunOp>(ops[when]) : rank::RunOp();
    for (const Buffer &buffer : buffers.shared)
      if (buffer.lifetime.begin <= when && when <= buffer.lifetime.end)
        fullest.push_back(buffer);
    peak.instant = when < int64_t(ops.size()) ? describeInstant(ops[when]) : "the end";
  }

  void addTo(llvm::MapVector<std::pair<Operation *, int>, MemoryHolder> &alike,
             const Buffer &buffer) {
    Operation *producer = findProducer(buffer, symbols);
    MemoryHolder &holder = alike[{producer, buffer.result}];
    holder.count += 1;
    holder.bytes += buffer.lifetime.bytes;
    if (holder.count > 1)
      return;
    auto run = dyn_cast<rank::RunOp>(buffer.op);
    holder.kind = buffer.result < 0 ? "scratch" : "value";
    holder.name = run ? run.getCallee().str() : buffer.op->getName().stripDialect().str();
    holder.at = sharding::describeLocation(producer->getLoc());
  }

  /// Returns the segment and micro-batch of a run; nullopt if either is missing.
  static std::optional<std::pair<int64_t, int64_t>> getPart(rank::RunOp run) {
    auto number = run ? run->getAttrOfType<IntegerAttr>(kMicroBatchMark) : IntegerAttr();
    if (!number || !run.getSegment())
      return std::nullopt;
    return std::pair(int64_t(*run.getSegment()), number.getInt());
  }

  void countWaiting() {
    std::set<std::pair<int64_t, int64_t>> parts;
    for (const Buffer &buffer : fullest) {
      auto run = dyn_cast<rank::RunOp>(buffer.op);
      if (!run || buffer.result < 0)
        continue;
      auto callee = symbols.lookup<func::FuncOp>(run.getCallee());
      auto phase = callee->getAttrOfType<ps::PhaseAttr>(kPhaseMark);
      if (auto part = getPart(run);
          part && phase && phase.getValue() == ps::Phase::Forward && part != getPart(running))
        parts.insert(*part);
    }
    for (auto [segment, microBatch] : parts)
      ++peak.waiting[segment];
  }

  ModuleOp module;
  SymbolTable &symbols;
  MemoryPeak peak;
  std::vector<Buffer> fullest;
  rank::RunOp running; ///< the run at the peak; null for any other op
};
} // namespace

std::vector<MemoryPeak> memory::findPeaks(ModuleOp module, StringRef entry) {
  std::vector<MemoryPeak> peaks;
  SymbolTable symbols(module);
  for (int64_t pp = 0; pp < ir::getPipelineSize(module); ++pp)
    if (getArenaBytes(module, pp))
      peaks.push_back(PeakFinder(module, symbols, pp).find(entry));
  return peaks;
}

std::string memory::explainMemory(ModuleOp module) {
  constexpr size_t most = 10;
  std::string text;
  llvm::raw_string_ostream os(text);
  std::vector<MemoryPeak> peaks = findPeaks(module);
  if (auto recompute = module->getAttrOfType<StringAttr>(kRecomputeMark);
      recompute && !peaks.empty())
    os << "\nrecompute " << recompute.getValue() << "\n";
  for (const MemoryPeak &peak : peaks) {
    std::string whose =
        peaks.size() > 1 ? llvm::formatv(" of pipeline coordinate {0}", peak.coordinate).str() : "";
    os << llvm::formatv("\nmemory per rank{0}: {1}; at most {2} in use at once, in {3}\n", whose,
                        sharding::formatBytes(peak.arenaBytes),
                        sharding::formatBytes(peak.liveBytes), escapeControls(peak.instant));
    if (peak.hostBytes > 0)
      os << "host memory per rank: " << sharding::formatBytes(peak.hostBytes)
         << " for offloaded variables and values\n";
    std::vector<std::vector<std::string>> rows = {{"bytes", "count", "kind", "what", "first at"}};
    for (const MemoryHolder &holder : llvm::ArrayRef(peak.holders).take_front(most))
      rows.push_back({sharding::formatBytes(holder.bytes), std::to_string(holder.count),
                      holder.kind, holder.name, holder.at});
    sharding::printTable(rows, os);
  }
  return text;
}

LogicalResult memory::checkMemoryLimit(ModuleOp module, int64_t limit) {
  int64_t size = ir::getPipelineSize(module), most = 0, coordinate = 0;
  for (int64_t pp = 0; pp < size; ++pp)
    if (int64_t bytes = getArenaBytes(module, pp).value_or(0); bytes > most)
      most = bytes, coordinate = pp;
  if (most <= limit)
    return success();
  std::string whose =
      size > 1 ? llvm::formatv(" of pipeline coordinate {0}", coordinate).str() : "";
  return ps::refuseFlag(module, "memory-limit")
         << ": a rank" << whose << " needs " << sharding::formatBytes(most) << " (" << most
         << " bytes), and the limit is " << sharding::formatBytes(limit)
         << "; add --zero, --recompute or --offload, lower --batch, or use more ranks "
            "(--explain "
            "lists the largest buffers)";
}
