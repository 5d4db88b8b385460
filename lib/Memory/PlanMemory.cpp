// ps-plan-memory: lifetimes of a module's buffers, and their addresses as attributes.
#include "FirstFit.h"
#include "dialects/rank/Rank.h"
#include "lib/Codegen/ClassBuffers.h"
#include "lib/Codegen/Fused.h"
#include "mlir/Pass/Pass.h"
#include "llvm/Support/MathExtras.h"

namespace parashard {
#define GEN_PASS_DEF_PLANMEMORYPASS
#include "lib/Memory/Passes.h.inc"
} // namespace parashard

using namespace mlir;
using namespace parashard;
using namespace parashard::codegen;

static IntegerAttr getI64(Operation *op, int64_t value) {
  return IntegerAttr::get(IntegerType::get(op->getContext(), 64), value);
}

static void setOffsets(Operation *op, StringRef mark, ArrayRef<int64_t> values) {
  op->setAttr(mark, DenseI64ArrayAttr::get(op->getContext(), values));
}

//===----------------------------------------------------------------------===//
// Class functions
//===----------------------------------------------------------------------===//

/// The last op, by number, that needs the buffer that `value` lies in; `end` for the function's
/// return.
static int64_t getLastUse(Value value, const llvm::DenseMap<Operation *, int64_t> &numbers,
                          int64_t end) {
  int64_t last = 0;
  for (Operation *user : value.getUsers()) {
    if (isView(user))
      last = std::max(last, getLastUse(user->getResult(0), numbers, end));
    else if (user->hasTrait<OpTrait::IsTerminator>() || isa<ps::WriteOp>(user))
      last = end;
    else
      last = std::max(last, numbers.lookup(user));
  }
  return last;
}

static void planClass(func::FuncOp function) {
  ClassBuffers buffers(function);
  llvm::DenseMap<Operation *, int64_t> numbers;
  for (Operation &op : function.getBody().front())
    numbers[&op] = numbers.size();
  int64_t end = numbers.size();
  std::vector<Lifetime> lifetimes;
  SmallVector<std::pair<Operation *, int>> owners; // result number, -1 for a workspace
  for (Operation &op : function.getBody().front()) {
    int64_t now = numbers[&op];
    if (makesValues(&op))
      for (OpResult result : op.getResults())
        if (buffers.isInScratch(result)) {
          int64_t last = std::max(now, getLastUse(result, numbers, end));
          lifetimes.push_back({now, last, ps::getByteSize(result.getType())});
          owners.push_back({&op, int(result.getResultNumber())});
        }
    if (auto workspace = op.getAttrOfType<IntegerAttr>(kWorkspaceMark)) {
      lifetimes.push_back({now, now, workspace.getInt()});
      owners.push_back({&op, -1});
    }
  }
  MemoryPlan plan = placeByFirstFit(lifetimes);
  llvm::MapVector<Operation *, SmallVector<int64_t>> offsets;
  for (auto [owner, offset] : llvm::zip_equal(owners, plan.offsets)) {
    auto [op, result] = owner;
    if (result < 0) {
      op->setAttr(kWorkspaceOffsetMark, getI64(op, offset));
      continue;
    }
    SmallVector<int64_t> &list = offsets[op];
    list.resize(op->getNumResults(), -1);
    list[result] = offset;
  }
  for (auto &[op, list] : offsets)
    setOffsets(op, kOffsetsMark, list);
  function->setAttr(kScratchBytesMark, getI64(function, plan.bytes));
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

namespace {
/// The buffers of one program: values, and the scratch of each run.
class ProgramPlan {
public:
  ProgramPlan(rank::ProgramOp program, SymbolTable &symbols) : program(program), symbols(symbols) {
    for (Operation &op : program.getBody().front())
      numbers[&op] = numbers.size();
  }

  /// Places everything from address `base` on; the bytes used.
  int64_t place(int64_t base) {
    collect();
    MemoryPlan plan = placeByFirstFit(lifetimes);
    for (auto [owner, offset] : llvm::zip_equal(owners, plan.offsets))
      write(owner, base + offset);
    for (auto &[op, list] : addresses)
      setOffsets(op, kAddressesMark, list);
    return plan.bytes;
  }

private:
  using Owner = std::pair<Operation *, int>; ///< result number, -1 for scratch

  void write(Owner owner, int64_t address) {
    auto [op, result] = owner;
    if (result < 0) {
      op->setAttr(kScratchAddressMark, getI64(op, address));
      return;
    }
    SmallVector<int64_t> &list = addresses[op];
    list.resize(op->getNumResults(), -1);
    list[result] = address;
  }

  /// When the op is over: a started collective with its wait.
  int64_t getEnd(Operation *op) {
    int64_t end = numbers.lookup(op);
    if (auto start = dyn_cast<rank::StartOp>(op))
      for (Operation *user : start.getToken().getUsers())
        end = std::max(end, numbers.lookup(user));
    return end;
  }

  int64_t getLastUse(Value value) {
    int64_t last = getEnd(value.getDefiningOp());
    for (Operation *user : value.getUsers()) {
      if (isa<rank::OutputOp>(user))
        return int64_t(numbers.size()); // the host reads it after the program
      last = std::max(last, isView(user) ? getLastUse(user->getResult(0)) : getEnd(user));
    }
    return last;
  }

  void collect() {
    bool sections = !program.getBody().front().getOps<rank::SectionOp>().empty();
    int64_t end = numbers.size();
    for (Operation &op : program.getBody().front()) {
      int64_t now = numbers[&op];
      // Inputs are there before the program begins; values of a program in sections may wait for
      // the host.
      int64_t begin = isa<rank::InputOp>(op) || sections ? 0 : now;
      if (!isa<ps::ReadOp>(op) && !isView(&op))
        for (OpResult result : op.getResults()) {
          if (!isa<RankedTensorType>(result.getType()))
            continue;
          int64_t last = sections ? end : getLastUse(result);
          lifetimes.push_back({begin, last, ps::getByteSize(result.getType())});
          owners.push_back({&op, int(result.getResultNumber())});
        }
      if (auto run = dyn_cast<rank::RunOp>(op)) {
        auto callee = symbols.lookup<func::FuncOp>(run.getCallee());
        int64_t bytes = callee->getAttrOfType<IntegerAttr>(kScratchBytesMark).getInt();
        lifetimes.push_back({now, now, bytes});
        owners.push_back({&op, -1});
      }
    }
  }

  rank::ProgramOp program;
  SymbolTable &symbols;
  llvm::DenseMap<Operation *, int64_t> numbers;
  std::vector<Lifetime> lifetimes;
  SmallVector<Owner> owners;
  llvm::MapVector<Operation *, SmallVector<int64_t>> addresses;
};
} // namespace

/// A value that a program reads from a variable lies in the variable: nothing may write it before
/// the last use.
static LogicalResult checkReads(rank::ProgramOp program, SymbolTable &symbols) {
  for (auto read : program.getBody().front().getOps<ps::ReadOp>()) {
    for (Operation *user : read->getUsers())
      for (Operation &op : program.getBody().front()) {
        auto run = dyn_cast<rank::RunOp>(op);
        if (!run || user->isBeforeInBlock(run) || run->isBeforeInBlock(read))
          continue;
        auto callee = symbols.lookup<func::FuncOp>(run.getCallee());
        auto refs = llvm::make_filter_range(
            callee.getArguments(), [](Value value) { return isa<ps::RefType>(value.getType()); });
        for (auto [symbol, ref] : llvm::zip(run.getVariableSymbols(), refs))
          if (symbol == read.getVariableAttr() && llvm::any_of(ref.getUsers(), [](Operation *use) {
                return isa<ps::WriteOp, ps::AccumulateOp>(use);
              }))
            return run.emitOpError("writes variable '")
                   << symbol.getValue()
                   << "', whose value at entry is used later; read it inside the class function";
      }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// The module
//===----------------------------------------------------------------------===//

static int64_t placeVariables(ModuleOp module) {
  int64_t next = 0;
  ps::MeshOp mesh = ps::getMesh(module);
  for (auto variable : module.getOps<ps::VariableOp>()) {
    RankedTensorType type = variable.getTensorType();
    if (ps::ShardingAttr sharding = variable.getSharding())
      type = ps::getLocalType(type, sharding, mesh);
    variable->setAttr(kAddressMark, getI64(variable, next));
    next += llvm::alignTo(std::max<int64_t>(1, ps::getByteSize(type)), kBufferAlignment);
  }
  return next;
}

namespace {
struct PlanMemoryPass : parashard::impl::PlanMemoryPassBase<PlanMemoryPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    for (auto function : module.getOps<func::FuncOp>())
      if (function->hasAttr(rank::kClassMark))
        planClass(function);
    int64_t base = placeVariables(module), bytes = 0;
    for (auto program : module.getOps<rank::ProgramOp>()) {
      if (failed(checkReads(program, symbols)))
        return signalPassFailure();
      // Programs run one at a time: they share one region.
      bytes = std::max(bytes, ProgramPlan(program, symbols).place(base));
    }
    module->setAttr(kArenaBytesMark, getI64(module, base + bytes));
    module->setAttr(ps::kLevelMark, ps::LevelAttr::get(module.getContext(), ps::Level::Placed));
  }
};
} // namespace
