// Finds the buffers for which memory is planned, and their lifetimes.
#include "Buffers.h"
#include "lib/Fusion/AsyncCollectives.h"
#include "lib/Fusion/ClassBuffers.h"
#include "lib/Fusion/Fused.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::memory;
using namespace parashard::fusion;

std::optional<int64_t> memory::getAddress(const Buffer &buffer, StringRef markOfResults,
                                          StringRef markOfOp) {
  if (buffer.result < 0) {
    auto value = buffer.op->getAttrOfType<IntegerAttr>(markOfOp);
    return value && value.getValue().isSignedIntN(64) ? std::optional(value.getInt())
                                                      : std::nullopt;
  }
  auto list = buffer.op->getAttrOfType<DenseI64ArrayAttr>(markOfResults);
  if (!list || list.size() != int64_t(buffer.op->getNumResults()))
    return std::nullopt;
  return list[buffer.result];
}

//===----------------------------------------------------------------------===//
// Class functions
//===----------------------------------------------------------------------===//

/// Returns the index of the last op that uses the buffer of `value`; 0 if unused. Returns `end` if
/// the function returns the value or writes it to a variable, because the function may copy these
/// values at its end.
static int64_t getLastUse(Value value, const llvm::DenseMap<Operation *, int64_t> &numbers,
                          int64_t end) {
  int64_t last = 0;
  for (Operation *user : value.getUsers()) {
    if (isView(user))
      last = std::max({last, isa<ps::WaitOp>(user) ? numbers.lookup(user) : 0,
                       getLastUse(user->getResult(0), numbers, end)});
    else if (user->hasTrait<OpTrait::IsTerminator>() || isa<ps::WriteOp>(user))
      last = end;
    else
      last = std::max(last, numbers.lookup(getEndOfUse(user)));
  }
  return last;
}

std::vector<Buffer> memory::findScratchBuffers(func::FuncOp function) {
  ClassBuffers classBuffers(function);
  llvm::DenseMap<Operation *, int64_t> numbers;
  for (Operation &op : function.getBody().front())
    numbers[&op] = numbers.size();
  int64_t end = numbers.size();
  std::vector<Buffer> buffers;
  for (Operation &op : function.getBody().front()) {
    int64_t now = numbers[&op];
    if (producesValue(&op))
      for (OpResult result : op.getResults())
        if (classBuffers.isInScratch(result)) {
          int64_t last = std::max(now, getLastUse(result, numbers, end));
          Lifetime lifetime{now, last, ps::getByteSize(result.getType())};
          buffers.push_back({&op, int(result.getResultNumber()), lifetime});
        }
    if (auto workspace = op.getAttrOfType<IntegerAttr>(kWorkspaceMark))
      buffers.push_back({&op, -1, {now, now, workspace.getInt()}});
  }
  return buffers;
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

namespace {
/// Returns the bytes of a tensor or of a fetched variable; nullopt for other types.
std::optional<int64_t> getBytes(Type type) {
  if (auto ref = dyn_cast<ps::RefType>(type))
    type = ref.getTensorType();
  return isa<RankedTensorType>(type) ? std::optional(ps::getByteSize(type)) : std::nullopt;
}

class ProgramReader {
public:
  ProgramReader(rank::ProgramOp program, SymbolTable &symbols)
      : program(program), symbols(symbols) {
    sectionBegins.push_back(0);
    for (Operation &op : program.getBody().front()) {
      int64_t number = numbers.size();
      numbers[&op] = number;
      if (isa<rank::SectionOp>(op))
        sectionBegins.push_back(number);
    }
  }

  ProgramBuffers read() {
    for (Operation &op : program.getBody().front()) {
      if (!isa<ps::ReadOp>(op) && !isView(&op))
        for (OpResult result : op.getResults())
          if (std::optional<int64_t> bytes = getBytes(result.getType()))
            add(&op, result, *bytes);
      if (auto run = dyn_cast<rank::RunOp>(op)) {
        auto callee = symbols.lookup<func::FuncOp>(run.getCallee());
        int64_t bytes = callee->getAttrOfType<IntegerAttr>(kScratchBytesMark).getInt();
        buffers.shared.push_back({&op, -1, {numbers[&op], numbers[&op], bytes}});
      }
    }
    return std::move(buffers);
  }

private:
  /// Returns the section of the op with index `number`.
  size_t getSection(int64_t number) const {
    return llvm::upper_bound(sectionBegins, number) - sectionBegins.begin() - 1;
  }
  /// Returns the index of the op after a section. The host reads the section's outputs before this
  /// op runs.
  int64_t getSectionEnd(size_t section) const {
    return section + 1 < sectionBegins.size() ? sectionBegins[section + 1]
                                              : int64_t(numbers.size());
  }

  /// Returns the index of `op`; for an asynchronous op, the index of its wait.
  int64_t getEnd(Operation *op) {
    int64_t end = numbers.lookup(op);
    if (op->getNumResults() > 0 && isa<rank::TokenType>(op->getResults().back().getType()))
      for (Operation *user : op->getResults().back().getUsers())
        end = std::max(end, numbers.lookup(user));
    return end;
  }

  int64_t getLastUse(Value value) {
    int64_t last = getEnd(value.getDefiningOp());
    for (Operation *user : value.getUsers()) {
      if (isa<rank::OutputOp>(user)) // read by the host
        last = std::max(last, getSectionEnd(getSection(numbers.lookup(user))));
      else
        last = std::max(last, isView(user) ? getLastUse(user->getResult(0)) : getEnd(user));
    }
    return last;
  }

  /// Returns true if a section after the one that computes `value` uses the value.
  bool isUsedLater(Value value) {
    size_t section = getSection(numbers.lookup(value.getDefiningOp()));
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      return getSection(numbers.lookup(user)) != section ||
             (isView(user) && isUsedLater(user->getResult(0)));
    });
  }

  void add(Operation *op, OpResult result, int64_t bytes) {
    int64_t now = numbers[op];
    // The host writes inputs before the section begins.
    int64_t begin = isa<rank::InputOp>(op) ? sectionBegins[getSection(now)] : now;
    std::vector<Buffer> &region = isa<rank::StashOp>(op) ? buffers.host
                                  : isUsedLater(result)  ? buffers.kept
                                                         : buffers.shared;
    Lifetime lifetime{begin, getLastUse(result), bytes};
    region.push_back({op, int(result.getResultNumber()), lifetime});
  }

  rank::ProgramOp program;
  SymbolTable &symbols;
  llvm::DenseMap<Operation *, int64_t> numbers;
  SmallVector<int64_t> sectionBegins; ///< index of the first op, by section
  ProgramBuffers buffers;
};
} // namespace

ProgramBuffers memory::findProgramBuffers(rank::ProgramOp program, SymbolTable &symbols) {
  return ProgramReader(program, symbols).read();
}
