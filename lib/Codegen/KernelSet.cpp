// Emits the kernels of a program; equal fused ops share their kernels.
#include "KernelSet.h"
#include "lib/Fusion/FoldEmpty.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::codegen;
using namespace parashard::fusion;

/// Returns a text that determines the code of the kernels: ops, attributes, types and value
/// numbers. Omits names, locations, and discardable `ps.` attributes except random keys.
static std::string describe(ps::FusedOp op, const FusedContext &context) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::DenseMap<Value, unsigned> numbers;
  for (int slot : context.scalarSlots)
    os << slot << ' ';
  for (int slot : context.firstSlots)
    os << slot << ' ';
  os << context.aligned << ' ';
  for (BlockArgument argument : op.getBody().getArguments()) {
    numbers[argument] = numbers.size();
    os << argument.getType() << ' ';
  }
  for (Operation &inner : op.getBody().front()) {
    os << '\n' << inner.getName();
    for (Value operand : inner.getOperands())
      os << ' ' << numbers.lookup(operand);
    os << ' ' << inner.getPropertiesAsAttribute();
    for (NamedAttribute attribute : inner.getDiscardableAttrs())
      if (!attribute.getName().getValue().starts_with("ps.") || attribute.getName() == kKeyMark)
        os << ' ' << attribute.getName() << '=' << attribute.getValue();
    for (Value result : inner.getResults()) {
      numbers[result] = numbers.size();
      os << ' ' << result.getType();
    }
  }
  return text;
}

/// Creates a kernel name from the first ops of `op`, and a hash of the description and the piece.
/// Equal kernels of two programs have equal names. Example: k_add_gelu_5d01c3f7.
static std::string makeName(StringRef prefix, ps::FusedOp op, StringRef description,
                            unsigned piece) {
  std::string name = prefix.str();
  unsigned count = 0;
  for (Operation &inner : op.getBody().front().without_terminator())
    if (!isView(&inner) && !isa<ps::ConstantOp>(inner) && count++ < 4)
      name += "_" + inner.getName().stripDialect().str();
  uint64_t hash = llvm::xxh3_64bits((description + std::to_string(piece)).str());
  return llvm::formatv("{0}_{1:x-8}", name, uint32_t(hash));
}

/// Returns how many bytes of a body argument a fused op reads.
static int64_t countRead(BlockArgument argument) {
  int64_t whole = ps::getByteSize(argument.getType()), read = 0;
  for (Operation *user : argument.getUsers())
    read += isa<ps::SliceOp>(user) ? ps::getByteSize(user->getResult(0).getType()) : whole;
  return std::min(whole, read);
}

static int64_t countBytes(ps::FusedOp op, const Piece &piece, const KernelCall &call) {
  int64_t bytes = 0;
  for (const KernelCall::Buffer &buffer : call.buffers) {
    if (buffer.kind == KernelCall::Argument::Input)
      bytes += countRead(op.getBody().getArgument(buffer.index));
    if (buffer.kind != KernelCall::Argument::Output)
      continue;
    for (auto [output, result] : llvm::zip_equal(piece.outputs, piece.results))
      if (result == buffer.index)
        bytes += ps::getByteSize(output.value.getType());
  }
  return bytes;
}

const SmallVector<KernelCall> *KernelSet::get(ps::FusedOp op, const FusedContext &context) {
  auto [entry, isNew] = byText.try_emplace(describe(op, context));
  if (!isNew)
    return &entry->second;
  auto pieces = getPieces(op.getBody().front().getTerminator()->getOperands());
  if (failed(pieces)) {
    op.emitOpError("yields a concat or pad together with other values");
    return nullptr;
  }
  int64_t workspace = 0;
  for (const Piece &piece : *pieces) {
    if (llvm::all_of(piece.outputs, [](const OutputRequest &o) { return isEmpty(o.value); }))
      continue;
    IterationSpace space;
    if (failed(space.analyze(getBodyOps(op), piece.outputs, getMaxChunks(op)))) {
      op.emitOpError("cannot be compiled to one kernel: ") << space.getReason();
      return nullptr;
    }
    if (piece.zeroFirst)
      entry->second.push_back(KernelCall());
    std::string name = makeName(prefix, op, entry->first(), &piece - pieces->begin());
    if (numbers.contains(name)) // equal hashes of different texts
      name += "_" + std::to_string(names.size());
    auto calls = factory(op, piece, space, context, module, name)->emit(workspace);
    if (failed(calls))
      return nullptr;
    for (KernelCall &call : *calls) {
      call.bytes = countBytes(op, piece, call);
      numbers[call.name] = names.size();
      names.push_back(call.name);
      entry->second.push_back(call);
    }
  }
  return &entry->second;
}
