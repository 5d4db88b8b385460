// Assigns the values of a class function to buffers.
#ifndef PARASHARD_LIB_FUSION_CLASSBUFFERS_H
#define PARASHARD_LIB_FUSION_CLASSBUFFERS_H

#include "Views.h"

namespace parashard::fusion {

/// Returns a variable's address on a pipeline coordinate; nullopt if the coordinate does not store
/// the variable.
std::optional<int64_t> getVariableAddress(ps::VariableOp variable, int64_t pp);
/// Returns the bytes of a pipeline coordinate's arena; nullopt before ps-plan-memory.
std::optional<int64_t> getArenaBytes(mlir::ModuleOp module, int64_t pp);
/// A range of host memory on a pipeline coordinate.
struct HostPart {
  int64_t base = 0, bytes = 0;
};
/// Returns the host memory for the offloaded variables and values of a pipeline coordinate; nullopt
/// if there is none.
std::optional<HostPart> getHostPart(mlir::ModuleOp module, int64_t pp);
/// Sets the attribute `mark` of `op` to one number per pipeline coordinate. For one coordinate, the
/// attribute is a single number instead of a list.
void setByCoordinate(mlir::Operation *op, llvm::StringRef mark, llvm::ArrayRef<int64_t> values);

/// The base buffers of a class function, in order: its tensor and ref arguments, its results, and
/// scratch.
class ClassBuffers {
public:
  explicit ClassBuffers(mlir::func::FuncOp function);

  unsigned getBaseCount() const { return scratch + 1; }
  unsigned getScratchBase() const { return scratch; }
  unsigned getResultBase(unsigned i) const { return firstResult + i; }
  unsigned getArgumentBase(mlir::Value argument) const { return bases.lookup(argument); }
  /// Returns the index of a ref argument in `getRefs`.
  unsigned getRefNumber(mlir::Value ref) const { return refNumbers.lookup(ref); }
  llvm::ArrayRef<mlir::Value> getRefs() const { return refs; }
  /// Returns the slot of an i64 argument (a key or the micro-batch) in the array of scalars that
  /// kernels receive.
  int getScalarSlot(mlir::Value argument) const { return slots.lookup(argument); }
  unsigned getKeyCount() const { return keys; }
  /// Returns the slot of the `first` flag of a ref. The flag is true in the first run of a step
  /// that accumulates into the variable.
  int getFirstSlot(unsigned ref) const { return 3 + keys + ref; }

  /// Returns the index of the base buffer that contains a value. `made` is a result of an op. The
  /// default is scratch.
  unsigned getBase(mlir::Value made) const;
  /// Returns the index of the ref into which the producer of `made` accumulates the value; -1 if
  /// the producer does not accumulate.
  int getAccumulated(mlir::Value made) const;
  /// Returns the values to copy at the end of the function, as (value, base buffer). Copies to
  /// results come before copies to variables.
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

/// Returns the value that owns the buffer of `value`, looking through views.
mlir::Value getRoot(mlir::Value value);
/// Returns true for ops with results, except views and reads.
bool producesValue(mlir::Operation *op);

} // namespace parashard::fusion

#endif
