// Implements ps-verify-placed: checks that every buffer has an address and overlaps no buffer in
// use at the same time.
#include "FirstFit.h"
#include "RecomputeBudget.h"
#include "dialects/ps/VerifyModule.h"
#include "lib/Fusion/ClassBuffers.h"
#include "lib/IR/Stages.h"
#include "lib/Memory/Buffers.h"
#include "mlir/Pass/Pass.h"
#include <map>
#include <queue>

namespace parashard::memory {
#define GEN_PASS_DEF_VERIFYPLACEDPASS
#include "lib/Memory/Passes.h.inc"
} // namespace parashard::memory

using namespace mlir;
using namespace parashard;
using namespace parashard::memory;
using namespace parashard::fusion;

namespace {

/// Bytes [begin, end) of scratch or of the arena.
struct Range {
  int64_t begin = 0, end = 0;
};

struct Placed {
  Operation *op;
  Range range;
  Lifetime lifetime;
};

std::optional<int64_t> getInteger(Operation *op, StringRef mark) {
  auto value = op->getAttrOfType<IntegerAttr>(mark);
  return value && value.getValue().isSignedIntN(64) ? std::optional(value.getInt()) : std::nullopt;
}

/// Fails unless bytes [begin, begin + bytes) begin at a multiple of 64 and are within `room`.
LogicalResult checkRange(Operation *op, StringRef label, std::optional<int64_t> begin,
                         int64_t bytes, Range room) {
  if (!begin)
    return op->emitOpError() << "(" << label << ") has no address; run ps-plan-memory";
  if (*begin % kBufferAlignment == 0 && *begin >= room.begin && *begin <= room.end &&
      bytes <= room.end - *begin)
    return success();
  return op->emitOpError() << "(" << label << ") has address " << *begin << " and " << bytes
                           << " bytes; expected a multiple of " << kBufferAlignment << " in bytes "
                           << room.begin << " to " << room.end;
}

/// Fails if two buffers that are in use at the same time share a byte.
LogicalResult checkApart(StringRef label, std::vector<Placed> placed) {
  llvm::stable_sort(
      placed, [](const Placed &a, const Placed &b) { return a.lifetime.begin < b.lifetime.begin; });
  std::map<int64_t, const Placed *> used;  // live buffers, by first byte
  using End = std::pair<int64_t, int64_t>; // end of the lifetime, first byte
  std::priority_queue<End, std::vector<End>, std::greater<End>> ends;
  for (const Placed &next : placed) {
    if (next.range.begin == next.range.end)
      continue;
    for (; !ends.empty() && ends.top().first < next.lifetime.begin; ends.pop())
      used.erase(ends.top().second);
    auto above = used.lower_bound(next.range.begin);
    const Placed *other = nullptr;
    if (above != used.end() && above->first < next.range.end)
      other = above->second;
    else if (above != used.begin() && std::prev(above)->second->range.end > next.range.begin)
      other = std::prev(above)->second;
    if (other) {
      InFlightDiagnostic error = next.op->emitOpError()
                                 << "(" << label << ") uses bytes " << next.range.begin << " to "
                                 << next.range.end << " while another buffer uses some of them";
      error.attachNote(other->op->getLoc())
          << "bytes " << other->range.begin << " to " << other->range.end << " are used here";
      return error;
    }
    used[next.range.begin] = &next;
    ends.push({next.lifetime.end, next.range.begin});
  }
  return success();
}

/// Checks that each buffer is in `room`, and overlaps no buffer in use at the same time.
LogicalResult verifyBuffers(ArrayRef<Buffer> buffers, StringRef label, StringRef markOfResults,
                            StringRef markOfOp, Range room) {
  std::vector<Placed> placed;
  for (const Buffer &buffer : buffers) {
    std::optional<int64_t> begin = getAddress(buffer, markOfResults, markOfOp);
    if (failed(checkRange(buffer.op, label, begin, buffer.lifetime.bytes, room)))
      return failure();
    placed.push_back({buffer.op, {*begin, *begin + buffer.lifetime.bytes}, buffer.lifetime});
  }
  return checkApart(label, std::move(placed));
}

LogicalResult verifyClass(func::FuncOp function) {
  std::optional<int64_t> bytes = getInteger(function, kScratchBytesMark);
  if (!bytes || *bytes < 0)
    return function.emitOpError("(placed_c2) lacks ")
           << kScratchBytesMark << "; run ps-plan-memory";
  return verifyBuffers(findScratchBuffers(function), "placed_c2", kOffsetsMark,
                       kWorkspaceOffsetMark, {0, *bytes});
}

/// Returns the range of a program's first slot. Fails unless all slots are in `room`.
FailureOr<Range> getSlot(rank::ProgramOp program, Range room) {
  auto slots = getInteger(program, kSlotsMark), base = getInteger(program, kSlotBaseMark),
       bytes = getInteger(program, kSlotBytesMark);
  if (!slots || !base || !bytes || *slots < 1 || *bytes < 0 || *base < room.begin ||
      *base > room.end || *bytes > (room.end - *base) / *slots)
    return program.emitOpError("(placed_c4) keeps values for later sections, but has no slots for "
                               "them in the arena; run ps-plan-memory"),
           failure();
  return Range{*base, *base + *bytes};
}

LogicalResult verifyProgram(rank::ProgramOp program, SymbolTable &symbols, Range room) {
  ProgramBuffers buffers = findProgramBuffers(program, symbols);
  if (failed(verifyBuffers(buffers.shared, "placed_c3", kAddressesMark, kScratchAddressMark, room)))
    return failure();
  if (buffers.kept.empty())
    return success();
  FailureOr<Range> slot = getSlot(program, room);
  if (failed(slot))
    return failure();
  for (const Buffer &buffer : buffers.shared) {
    int64_t begin = *getAddress(buffer, kAddressesMark, kScratchAddressMark);
    if (begin + buffer.lifetime.bytes > slot->begin)
      return buffer.op->emitOpError("(placed_c4) overlaps the slots, which begin at byte ")
             << slot->begin;
  }
  return verifyBuffers(buffers.kept, "placed_c4", kAddressesMark, kScratchAddressMark, *slot);
}

/// Returns the end of a coordinate's variables in device or host memory. Fails unless the variables
/// are in `room` and do not overlap.
FailureOr<int64_t> verifyVariables(ModuleOp module, int64_t pp, bool inHost, Range room) {
  StringRef label = inHost ? "placed_c7" : "placed_c1";
  std::vector<Placed> placed;
  ps::MeshOp mesh = ps::getMesh(module);
  int64_t end = room.begin;
  for (auto variable : module.getOps<ps::VariableOp>()) {
    if (variable->hasAttr(kHostMark) != inHost)
      continue;
    RankedTensorType type = variable.getTensorType();
    if (mesh)
      type = ps::getLocalType(type, variable.getSharding(), mesh);
    int64_t bytes = ps::getByteSize(type);
    std::optional<int64_t> begin = getVariableAddress(variable, pp);
    if (!begin && isa_and_nonnull<DenseI64ArrayAttr>(variable->getAttr(kAddressMark)))
      continue; // only stored on other coordinates
    if (failed(checkRange(variable, label, begin, bytes, room)))
      return failure();
    placed.push_back({variable, {*begin, *begin + bytes}, {}});
    end = std::max(end, *begin + bytes);
  }
  if (failed(checkApart(label, std::move(placed))))
    return failure();
  return end;
}

/// Checks that host memory begins after the arena, and contains the variables marked `ps.host`,
/// followed by the stashed values. A module without host memory must not have such variables or
/// values.
LogicalResult verifyHostPart(ModuleOp module, SymbolTable &symbols, int64_t pp, int64_t arena) {
  std::optional<HostPart> host = getHostPart(module, pp);
  if (host && host->base < arena)
    return module.emitError("(placed_c7) has host memory from byte ")
           << host->base << " on, inside the arena of " << arena << " bytes; run ps-plan-memory";
  Range room = host ? Range{host->base, host->base + host->bytes} : Range{arena, arena};
  FailureOr<int64_t> end = verifyVariables(module, pp, /*inHost=*/true, room);
  if (failed(end))
    return failure();
  for (auto program : module.getOps<rank::ProgramOp>())
    if (int64_t(program.getPp()) == pp &&
        failed(verifyBuffers(findProgramBuffers(program, symbols).host, "placed_c7", kAddressesMark,
                             kScratchAddressMark, {*end, room.end})))
      return failure();
  return success();
}

/// Checks that a coordinate stores the variables that its programs use.
LogicalResult verifyHeld(rank::ProgramOp program, SymbolTable &symbols) {
  auto check = [&](Operation *op, StringAttr symbol) -> LogicalResult {
    auto variable = symbols.lookup<ps::VariableOp>(symbol);
    if (!variable || getVariableAddress(variable, program.getPp()))
      return success();
    return op->emitOpError("(placed_c5) uses ")
           << symbol << ", which has no address on pipeline coordinate " << program.getPp();
  };
  for (Operation &op : program.getBody().front()) {
    if (auto run = dyn_cast<rank::RunOp>(op))
      for (FlatSymbolRefAttr symbol : run.getVariableSymbols())
        if (failed(check(&op, symbol.getAttr())))
          return failure();
    if (auto read = dyn_cast<ps::ReadOp>(op);
        read && failed(check(&op, read.getVariableAttr().getAttr())))
      return failure();
    if (auto write = dyn_cast<ps::WriteOp>(op);
        write && failed(check(&op, write.getVariableAttr().getAttr())))
      return failure();
  }
  return success();
}

struct VerifyPlacedPass : memory::impl::VerifyPlacedPassBase<VerifyPlacedPass> {
  void runOnOperation() override {
    markAllAnalysesPreserved();
    if (failed(ps::verifyModule(getOperation())) || failed(verify(getOperation())))
      signalPassFailure();
  }

  static LogicalResult verify(ModuleOp module) {
    for (int64_t pp = 0; pp < ir::getPipelineSize(module); ++pp)
      if (getArenaBytes(module, pp).value_or(-1) < 0)
        return module.emitError("lacks ") << kArenaBytesMark << "; run ps-plan-memory";
    for (auto function : module.getOps<func::FuncOp>())
      if (function->hasAttr(kClassMark) && failed(verifyClass(function)))
        return failure();
    SymbolTable symbols(module);
    for (int64_t pp = 0; pp < ir::getPipelineSize(module); ++pp)
      if (failed(verifyCoordinate(module, symbols, pp)))
        return failure();
    return success();
  }

  static LogicalResult verifyCoordinate(ModuleOp module, SymbolTable &symbols, int64_t pp) {
    int64_t arena = *getArenaBytes(module, pp);
    if (auto budget = module->getAttrOfType<IntegerAttr>(kMemoryBudgetMark);
        budget && arena > budget.getInt())
      return module.emitError("(placed_c6) a rank needs ")
             << arena << " bytes, more than the planned budget of " << budget.getInt()
             << " bytes; compile the model again with a larger --recompute budget=...";
    FailureOr<int64_t> end = verifyVariables(module, pp, /*inHost=*/false, {0, arena});
    if (failed(end) || failed(verifyHostPart(module, symbols, pp, arena)))
      return failure();
    for (auto program : module.getOps<rank::ProgramOp>())
      if (int64_t(program.getPp()) == pp &&
          (failed(verifyHeld(program, symbols)) ||
           failed(verifyProgram(program, symbols, {*end, arena}))))
        return failure();
    return success();
  }
};

} // namespace
