// Which buffer each value of a class function lies in.
#ifndef PARASHARD_LIB_FUSION_CLASSBUFFERS_H
#define PARASHARD_LIB_FUSION_CLASSBUFFERS_H

#include "Views.h"

namespace parashard::fusion {

/// On ops of a class function: the offset in scratch of each result, -1 for one that lies
/// elsewhere; set by ps-plan-memory.
inline constexpr llvm::StringLiteral kOffsetsMark = "ps.offsets";
/// On ps.fused with a workspace: its offset in scratch.
inline constexpr llvm::StringLiteral kWorkspaceOffsetMark = "ps.workspace_offset";
/// On class functions: bytes of scratch.
inline constexpr llvm::StringLiteral kScratchBytesMark = "ps.scratch_bytes";
/// On variables and values of a program: arena addresses; on the module: the arena's bytes. Of
/// variables and the arena it is a list by pipeline coordinate where there are several; -1 for a
/// variable that a coordinate does not hold.
inline constexpr llvm::StringLiteral kAddressMark = "ps.address";
inline constexpr llvm::StringLiteral kAddressesMark = "ps.addresses";
inline constexpr llvm::StringLiteral kScratchAddressMark = "ps.scratch_address";
inline constexpr llvm::StringLiteral kArenaBytesMark = "ps.arena_bytes";
/// On the module, where variables or values lie in the host's memory: where its part of the
/// addresses begins, behind the arena, and its bytes. Lists by pipeline coordinate as the arena's
/// bytes.
inline constexpr llvm::StringLiteral kHostBaseMark = "ps.host_base";
inline constexpr llvm::StringLiteral kHostBytesMark = "ps.host_bytes";
/// On a program whose sections the host calls apart: the number of slots, and where they lie.
inline constexpr llvm::StringLiteral kSlotsMark = "ps.slots";
inline constexpr llvm::StringLiteral kSlotBaseMark = "ps.slot_base";
inline constexpr llvm::StringLiteral kSlotBytesMark = "ps.slot_bytes";

/// A variable's address on a pipeline coordinate; nothing where it has none there.
std::optional<int64_t> getVariableAddress(ps::VariableOp variable, int64_t pp);
/// Bytes of a pipeline coordinate's arena; nothing before ps-plan-memory.
std::optional<int64_t> getArenaBytes(mlir::ModuleOp module, int64_t pp);
/// Addresses of the host's memory on a pipeline coordinate.
struct HostPart {
  int64_t base = 0, bytes = 0;
};
/// Nothing where nothing lies there.
std::optional<HostPart> getHostPart(mlir::ModuleOp module, int64_t pp);
/// Gives `op` a mark with one number for each pipeline coordinate: a number where there is one.
void setByCoordinate(mlir::Operation *op, llvm::StringRef mark, llvm::ArrayRef<int64_t> values);

/// The bases of a class function, in order: its tensor and ref arguments, its results, scratch.
class ClassBuffers {
public:
  explicit ClassBuffers(mlir::func::FuncOp function);

  unsigned getBaseCount() const { return scratch + 1; }
  unsigned getScratchBase() const { return scratch; }
  unsigned getResultBase(unsigned i) const { return firstResult + i; }
  /// The base of a tensor or ref argument.
  unsigned getArgumentBase(mlir::Value argument) const { return bases.lookup(argument); }
  /// The number of a ref argument among the refs.
  unsigned getRefNumber(mlir::Value ref) const { return refNumbers.lookup(ref); }
  llvm::ArrayRef<mlir::Value> getRefs() const { return refs; }
  /// The slot in the kernels' scalars of an i64 argument: a key or the micro-batch.
  int getScalarSlot(mlir::Value argument) const { return slots.lookup(argument); }
  unsigned getKeyCount() const { return keys; }
  /// The slot of the `first` flag of a ref.
  int getFirstSlot(unsigned ref) const { return 3 + keys + ref; }

  /// Where a value made by an op lies: a base, or scratch (the base of scratch).
  unsigned getBase(mlir::Value made) const;
  /// The ref that `made` is added to where it is made, or -1.
  int getAccumulated(mlir::Value made) const;
  /// Values that must be copied at the end: (value, base), results before variables.
  llvm::ArrayRef<std::pair<mlir::Value, unsigned>> getCopies() const { return copies; }
  bool isInScratch(mlir::Value made) const { return getBase(made) == scratch; }

private:
  mlir::func::FuncOp function;
  unsigned firstResult = 0, scratch = 0, keys = 0;
  llvm::DenseMap<mlir::Value, unsigned> bases;
  llvm::DenseMap<mlir::Value, unsigned> refNumbers;
  llvm::DenseMap<mlir::Value, int> slots;
  llvm::DenseMap<mlir::Value, int> accumulated;
  llvm::SmallVector<mlir::Value> refs;
  llvm::SmallVector<std::pair<mlir::Value, unsigned>> copies;
};

/// The value whose buffer `value` lies in: through views.
mlir::Value getRoot(mlir::Value value);
/// True for ops that make values: neither views, nor reads.
bool producesValue(mlir::Operation *op);

} // namespace parashard::fusion

#endif
