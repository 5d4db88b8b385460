// Declares the builder of instructions for ops that the runtime computes with a library function.
#ifndef PARASHARD_DIALECTS_PS_CALLBUILDER_H
#define PARASHARD_DIALECTS_PS_CALLBUILDER_H

#include "mlir/IR/Value.h"
#include "llvm/Support/JSON.h"
#include <optional>

namespace parashard::ps {

/// Builds the instruction of one op. The instruction has the op's name without the dialect, and the
/// fields of docs/program-format.md. The op adds its fields; code generation supplies the
/// addresses. Example: `ps.embedding` becomes "embedding" with the fields "table", "indices" and
/// "out".
class CallBuilder {
public:
  virtual ~CallBuilder() = default;

  /// Adds a field whose value does not depend on addresses.
  virtual void add(llvm::StringRef field, llvm::json::Value value) = 0;
  /// Adds the name of an element type, such as "f32".
  virtual void addType(llvm::StringRef field, mlir::Type element) = 0;
  /// Adds the address of a value's first element; the value may be a view.
  virtual void addBuffer(llvm::StringRef field, mlir::Value value) = 0;
  /// Returns the strides of a value in elements, one per dim. Returns nullopt if strides cannot
  /// describe the view.
  virtual std::optional<llvm::SmallVector<int64_t>> getStrides(mlir::Value value) = 0;
  /// Returns the index of the variable that `result` is accumulated into, or -1 if `result` is only
  /// written.
  virtual int64_t getAccumulated(mlir::Value result) = 0;
  /// Returns the index of a random key in the function's list of keys.
  virtual int64_t getKeyNumber(mlir::Value key) = 0;

  /// Adds the operand's element type as "dtype". Also adds the result's element type as "out_dtype"
  /// if it is different.
  void addTypes(mlir::Value operand, mlir::Value result);
};

} // namespace parashard::ps

#endif
