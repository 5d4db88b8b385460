// Implements ps-plan-memory: assigns addresses to a module's buffers, as attributes.
#include "FirstFit.h"
#include "lib/Fusion/ClassBuffers.h"
#include "lib/IR/Stages.h"
#include "lib/Memory/Buffers.h"
#include "mlir/Pass/Pass.h"
#include "parashard/Levels.h"
#include "llvm/Support/MathExtras.h"

namespace parashard::memory {
#define GEN_PASS_DECL_PLANMEMORYPASS
#define GEN_PASS_DEF_PLANMEMORYPASS
#include "lib/Memory/Passes.h.inc"
} // namespace parashard::memory

using namespace mlir;
using namespace parashard;
using namespace parashard::memory;
using namespace parashard::fusion;

static IntegerAttr getI64(Operation *op, int64_t value) {
  return IntegerAttr::get(IntegerType::get(op->getContext(), 64), value);
}

static void setOffsets(Operation *op, StringRef mark, ArrayRef<int64_t> values) {
  op->setAttr(mark, DenseI64ArrayAttr::get(op->getContext(), values));
}

/// By op: the address of each result; -1 for a result without a buffer.
using Addresses = llvm::MapVector<Operation *, SmallVector<int64_t>>;

/// Places buffers from address `base` on. Adds the addresses of results to `addresses`, and sets
/// the attribute `markOfOp` for workspaces and scratch. Returns the bytes used.
static int64_t placeBuffers(ArrayRef<Buffer> buffers, int64_t base, StringRef markOfOp,
                            Addresses &addresses) {
  std::vector<Lifetime> lifetimes;
  for (const Buffer &buffer : buffers)
    lifetimes.push_back(buffer.lifetime);
  MemoryPlan plan = placeByFirstFit(lifetimes);
  for (auto [buffer, offset] : llvm::zip_equal(buffers, plan.offsets)) {
    if (buffer.result < 0) {
      buffer.op->setAttr(markOfOp, getI64(buffer.op, base + offset));
      continue;
    }
    SmallVector<int64_t> &list = addresses[buffer.op];
    list.resize(buffer.op->getNumResults(), -1);
    list[buffer.result] = base + offset;
  }
  return plan.bytes;
}

static void planClass(func::FuncOp function) {
  Addresses offsets;
  int64_t bytes = placeBuffers(findScratchBuffers(function), 0, kWorkspaceOffsetMark, offsets);
  for (auto &[op, list] : offsets)
    setOffsets(op, kOffsetsMark, list);
  function->setAttr(kScratchBytesMark, getI64(function, bytes));
}

namespace {
class ProgramPlan {
public:
  ProgramPlan(rank::ProgramOp program, SymbolTable &symbols)
      : program(program), buffers(findProgramBuffers(program, symbols)) {}

  /// Places the shared buffers from address `base` on. Returns the bytes used.
  int64_t placeShared(int64_t base) {
    return placeBuffers(buffers.shared, base, kScratchAddressMark, addresses);
  }

  /// Places `slots` copies of the kept values from address `base` on. Returns the bytes used by all
  /// copies. Sets the address attributes of the shared and of the kept values.
  int64_t placeSlots(int64_t base, int64_t slots) {
    int64_t bytes = placeBuffers(buffers.kept, base, kScratchAddressMark, addresses);
    for (auto &[op, list] : addresses)
      setOffsets(op, kAddressesMark, list);
    if (bytes == 0)
      return 0;
    program->setAttr(kSlotsMark, getI64(program, slots));
    program->setAttr(kSlotBaseMark, getI64(program, base));
    program->setAttr(kSlotBytesMark, getI64(program, bytes));
    return slots * bytes;
  }

private:
  rank::ProgramOp program;
  ProgramBuffers buffers;
  Addresses addresses;
};
} // namespace

/// Returns the runs of a program that write or add to each variable.
static DenseMap<Attribute, SmallVector<rank::RunOp, 1>> findWriters(rank::ProgramOp program,
                                                                    SymbolTable &symbols) {
  DenseMap<Attribute, SmallVector<rank::RunOp, 1>> writers;
  DenseMap<Attribute, SmallVector<bool>> written; // by class function, for each variable
  for (auto run : program.getBody().front().getOps<rank::RunOp>()) {
    auto [known, isNew] = written.try_emplace(run.getCalleeAttr());
    if (isNew)
      for (Value argument : symbols.lookup<func::FuncOp>(run.getCallee()).getArguments())
        if (isa<ps::RefType>(argument.getType()))
          known->second.push_back(llvm::any_of(argument.getUsers(), [](Operation *use) {
            return isa<ps::WriteOp, ps::AccumulateOp>(use);
          }));
    for (auto [symbol, isWritten] : llvm::zip(run.getVariableSymbols(), known->second))
      if (isWritten)
        writers[symbol].push_back(run);
  }
  return writers;
}

/// Checks that no run writes a variable before the last use of a value read from the variable. Such
/// a value has no buffer of its own: it is in the variable's memory.
static LogicalResult checkReads(rank::ProgramOp program, SymbolTable &symbols) {
  DenseMap<Attribute, SmallVector<rank::RunOp, 1>> writers = findWriters(program, symbols);
  for (auto read : program.getBody().front().getOps<ps::ReadOp>()) {
    auto known = writers.find(read.getVariableAttr());
    if (known == writers.end())
      continue;
    for (Operation *user : read->getUsers())
      for (rank::RunOp run : known->second)
        if (!user->isBeforeInBlock(run) && !run->isBeforeInBlock(read))
          return run.emitOpError("writes variable '")
                 << read.getVariableAttr().getValue()
                 << "' before the last use of a value that was read from the variable; read the "
                    "variable inside the class function";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// The module
//===----------------------------------------------------------------------===//

/// Returns the variables that the programs of a pipeline coordinate use.
static DenseSet<StringAttr> findNamed(ModuleOp module, int64_t pp) {
  DenseSet<StringAttr> named;
  for (auto program : module.getOps<rank::ProgramOp>()) {
    if (int64_t(program.getPp()) != pp)
      continue;
    for (Operation &op : program.getBody().front()) {
      if (auto run = dyn_cast<rank::RunOp>(op))
        for (FlatSymbolRefAttr symbol : run.getVariableSymbols())
          named.insert(symbol.getAttr());
      if (auto read = dyn_cast<ps::ReadOp>(op))
        named.insert(read.getVariableAttr().getAttr());
      if (auto write = dyn_cast<ps::WriteOp>(op))
        named.insert(write.getVariableAttr().getAttr());
    }
  }
  return named;
}

/// Assigns addresses to the variables of each coordinate `pp`, in device or host memory, from
/// address `ends[pp]` on. Advances `ends[pp]`. Variables that no program uses belong to coordinate
/// 0.
static void placeVariables(ModuleOp module, bool inHost, SmallVectorImpl<int64_t> &ends) {
  int64_t coordinates = ends.size();
  std::vector<DenseSet<StringAttr>> named;
  for (int64_t pp = 0; pp < coordinates; ++pp)
    named.push_back(findNamed(module, pp));
  ps::MeshOp mesh = ps::getMesh(module);
  for (auto variable : module.getOps<ps::VariableOp>()) {
    if (variable->hasAttr(kHostMark) != inHost)
      continue;
    RankedTensorType type = variable.getTensorType();
    if (ps::ShardingAttr sharding = variable.getSharding())
      type = ps::getLocalType(type, sharding, mesh);
    int64_t bytes = llvm::alignTo(std::max<int64_t>(1, ps::getByteSize(type)), kBufferAlignment);
    auto isNamed = [&](const auto &symbols) { return symbols.contains(variable.getSymNameAttr()); };
    bool isUnnamed = llvm::none_of(named, isNamed);
    SmallVector<int64_t> addresses;
    for (int64_t pp = 0; pp < coordinates; ++pp) {
      bool isHeld = isNamed(named[pp]) || (isUnnamed && pp == 0);
      addresses.push_back(isHeld ? ends[pp] : -1);
      ends[pp] += isHeld ? bytes : 0;
    }
    setByCoordinate(variable, kAddressMark, addresses);
  }
}

/// Places the stashed values of a coordinate's programs from address `base` on. Returns the bytes
/// used. Programs run one at a time, so they share these addresses.
static int64_t placeStashed(ModuleOp module, SymbolTable &symbols, int64_t pp, int64_t base) {
  int64_t bytes = 0;
  for (auto program : module.getOps<rank::ProgramOp>()) {
    if (int64_t(program.getPp()) != pp || program.getBody().getOps<rank::StashOp>().empty())
      continue;
    Addresses addresses;
    bytes = std::max(bytes, placeBuffers(findProgramBuffers(program, symbols).host, base,
                                         kScratchAddressMark, addresses));
    for (auto &[op, list] : addresses)
      setOffsets(op, kAddressesMark, list);
  }
  return bytes;
}

static bool usesHostMemory(ModuleOp module) {
  return llvm::any_of(module.getOps<ps::VariableOp>(),
                      [](auto variable) { return variable->hasAttr(kHostMark); }) ||
         llvm::any_of(module.getOps<rank::ProgramOp>(), [](rank::ProgramOp program) {
           return !program.getBody().getOps<rank::StashOp>().empty();
         });
}

/// For each coordinate, places the variables in host memory, followed by the stashed values. They
/// begin at least one page after the arena.
static void placeInHost(ModuleOp module, SymbolTable &symbols, ArrayRef<int64_t> arenas) {
  constexpr int64_t kPage = 4096;
  if (!usesHostMemory(module))
    return;
  SmallVector<int64_t> bases, bytes;
  for (int64_t arena : arenas)
    bases.push_back(int64_t(llvm::alignTo(arena, kPage)) + kPage);
  SmallVector<int64_t> ends(bases);
  placeVariables(module, /*inHost=*/true, ends);
  for (auto [pp, base] : llvm::enumerate(bases))
    bytes.push_back(ends[pp] - base + placeStashed(module, symbols, pp, ends[pp]));
  setByCoordinate(module, kHostBaseMark, bases);
  setByCoordinate(module, kHostBytesMark, bytes);
}

namespace {
struct PlanMemoryPass : memory::impl::PlanMemoryPassBase<PlanMemoryPass> {
  using PlanMemoryPassBase::PlanMemoryPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(checkLevel(module, ps::Level::Scheduled, getArgument())))
      return signalPassFailure();
    SymbolTable symbols(module);
    for (auto function : module.getOps<func::FuncOp>())
      if (function->hasAttr(kClassMark))
        planClass(function);
    SmallVector<int64_t> ends(ir::getPipelineSize(module), 0);
    placeVariables(module, /*inHost=*/false, ends);
    for (auto [pp, end] : llvm::enumerate(ends))
      if (failed(placePrograms(module, symbols, pp, end)))
        return signalPassFailure();
    setByCoordinate(module, kArenaBytesMark, ends);
    placeInHost(module, symbols, ends);
    module->setAttr(kLevelMark, ps::LevelAttr::get(module.getContext(), ps::Level::Placed));
  }

private:
  /// Places the buffers of a coordinate's programs after its variables, which end at `end`.
  /// Advances `end`.
  LogicalResult placePrograms(ModuleOp module, SymbolTable &symbols, int64_t pp, int64_t &end) {
    int64_t base = end, bytes = 0;
    std::vector<ProgramPlan> plans;
    for (auto program : module.getOps<rank::ProgramOp>()) {
      if (int64_t(program.getPp()) != pp)
        continue;
      if (failed(checkReads(program, symbols)))
        return failure();
      // Programs run one at a time, so they share one region.
      plans.emplace_back(program, symbols);
      bytes = std::max(bytes, plans.back().placeShared(base));
    }
    // Values in slots outlive a call of the program, so each program has its own slots.
    end = base + bytes;
    for (ProgramPlan &plan : plans)
      end += plan.placeSlots(end, slots);
    return success();
  }
};
} // namespace
