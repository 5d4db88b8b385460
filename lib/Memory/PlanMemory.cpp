// ps-plan-memory: lifetimes of a module's buffers, and their addresses as attributes.
#include "FirstFit.h"
#include "dialects/rank/Rank.h"
#include "lib/Codegen/ClassBuffers.h"
#include "lib/Codegen/Fused.h"
#include "mlir/Pass/Pass.h"
#include "parashard/Levels.h"
#include "llvm/Support/MathExtras.h"

namespace parashard {
#define GEN_PASS_DECL_PLANMEMORYPASS
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
/// The buffers of one program: values, and the scratch of each run. Where the host calls the
/// sections apart, what one section makes for a later one lies in a region of its own, of which
/// there is a copy for each slot.
class ProgramPlan {
public:
  ProgramPlan(rank::ProgramOp program, SymbolTable &symbols) : program(program), symbols(symbols) {
    sectionBegins.push_back(0);
    for (Operation &op : program.getBody().front()) {
      int64_t number = numbers.size();
      numbers[&op] = number;
      if (isa<rank::SectionOp>(op))
        sectionBegins.push_back(number);
    }
    collect();
  }

  /// Places what no slot keeps from address `base` on; the bytes used.
  int64_t placeShared(int64_t base) { return place(shared, base); }

  /// Places what slots keep, `slots` copies from address `base` on; the bytes used by all.
  int64_t placeSlots(int64_t base, int64_t slots) {
    int64_t bytes = place(kept, base);
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
  using Owner = std::pair<Operation *, int>; ///< result number, -1 for scratch
  struct Region {
    std::vector<Lifetime> lifetimes;
    SmallVector<Owner> owners;
  };

  int64_t place(const Region &region, int64_t base) {
    MemoryPlan plan = placeByFirstFit(region.lifetimes);
    for (auto [owner, offset] : llvm::zip_equal(region.owners, plan.offsets))
      write(owner, base + offset);
    return plan.bytes;
  }

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

  /// The number of the section that the op of that number stands in.
  size_t getSection(int64_t number) const {
    return llvm::upper_bound(sectionBegins, number) - sectionBegins.begin() - 1;
  }
  /// When the host reads the outputs of a section.
  int64_t getSectionEnd(size_t section) const {
    return section + 1 < sectionBegins.size() ? sectionBegins[section + 1]
                                              : int64_t(numbers.size());
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
      if (isa<rank::OutputOp>(user)) // the host reads it when the section is over
        last = std::max(last, getSectionEnd(getSection(numbers.lookup(user))));
      else
        last = std::max(last, isView(user) ? getLastUse(user->getResult(0)) : getEnd(user));
    }
    return last;
  }

  /// Whether a section after that of `value` uses it.
  bool isUsedLater(Value value) {
    size_t section = getSection(numbers.lookup(value.getDefiningOp()));
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      return getSection(numbers.lookup(user)) != section ||
             (isView(user) && isUsedLater(user->getResult(0)));
    });
  }

  void add(Operation *op, OpResult result) {
    int64_t now = numbers[op];
    // Inputs are there before the section begins.
    int64_t begin = isa<rank::InputOp>(op) ? sectionBegins[getSection(now)] : now;
    Region &region = isUsedLater(result) ? kept : shared;
    region.lifetimes.push_back({begin, getLastUse(result), ps::getByteSize(result.getType())});
    region.owners.push_back({op, int(result.getResultNumber())});
  }

  void collect() {
    for (Operation &op : program.getBody().front()) {
      if (!isa<ps::ReadOp>(op) && !isView(&op))
        for (OpResult result : op.getResults())
          if (isa<RankedTensorType>(result.getType()))
            add(&op, result);
      if (auto run = dyn_cast<rank::RunOp>(op)) {
        auto callee = symbols.lookup<func::FuncOp>(run.getCallee());
        int64_t bytes = callee->getAttrOfType<IntegerAttr>(kScratchBytesMark).getInt();
        shared.lifetimes.push_back({numbers[&op], numbers[&op], bytes});
        shared.owners.push_back({&op, -1});
      }
    }
  }

  rank::ProgramOp program;
  SymbolTable &symbols;
  llvm::DenseMap<Operation *, int64_t> numbers;
  SmallVector<int64_t> sectionBegins; ///< by section, its first op's number
  Region shared, kept;
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
  using PlanMemoryPassBase::PlanMemoryPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(checkLevel(module, ps::Level::Scheduled, getArgument())))
      return signalPassFailure();
    SymbolTable symbols(module);
    for (auto function : module.getOps<func::FuncOp>())
      if (function->hasAttr(rank::kClassMark))
        planClass(function);
    int64_t base = placeVariables(module), bytes = 0;
    std::vector<ProgramPlan> plans;
    for (auto program : module.getOps<rank::ProgramOp>()) {
      if (failed(checkReads(program, symbols)))
        return signalPassFailure();
      // Programs run one at a time: they share one region.
      plans.emplace_back(program, symbols);
      bytes = std::max(bytes, plans.back().placeShared(base));
    }
    // Slots outlive the run of a program: each has its own place, after the shared region.
    int64_t end = base + bytes;
    for (ProgramPlan &plan : plans)
      end += plan.placeSlots(end, slots);
    module->setAttr(kArenaBytesMark, getI64(module, end));
    module->setAttr(ps::kLevelMark, ps::LevelAttr::get(module.getContext(), ps::Level::Placed));
  }
};
} // namespace
