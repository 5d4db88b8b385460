// Writes a class function as instructions (docs/program-format.md).
#ifndef PARASHARD_LIB_CODEGEN_CLASSCODE_H
#define PARASHARD_LIB_CODEGEN_CLASSCODE_H

#include "KernelSet.h"
#include "lib/Fusion/AsyncCollectives.h"
#include "lib/Fusion/ClassBuffers.h"
#include "llvm/Support/JSON.h"

namespace parashard::codegen {

/// Returns the name of an element type in the program table (docs/program-format.md), such as
/// "f32".
llvm::StringRef getDtypeName(mlir::Type element);
/// Sets "dtype" to the element type of an operand, and "out_dtype" to that of the result if the
/// types differ.
void describeTypes(llvm::json::Object &object, mlir::Value operand, mlir::Value result);
/// Returns a location as text, such as "transformer.h.0 (model.py:12)". An unknown location gives
/// an empty string.
std::string describeLocation(mlir::Location loc);

/// Sets "op", "axes" and "dtype" of a collective in a class function or a program.
void describeCollective(llvm::json::Object &object, llvm::StringRef name, mlir::ArrayAttr axes,
                        mlir::Type element);
/// Sets "size" to the size of a dim of `shape`, and "outer" and "inner" to the numbers of elements
/// of the dims before and after it. Example: dim 1 of [2, 3, 4] gives outer 2, size 3, inner 4.
void describeDim(llvm::json::Object &object, llvm::ArrayRef<int64_t> shape, int64_t dim);

class ClassCode {
public:
  ClassCode(mlir::func::FuncOp function, KernelSet &kernels)
      : function(function), buffers(function), kernels(kernels) {}

  /// Returns the function as a JSON object; nullopt after a diagnostic.
  std::optional<llvm::json::Object> write();

private:
  llvm::json::Value buffer(mlir::Value value, int64_t extra = 0);
  llvm::json::Object begin(llvm::StringRef name, mlir::Operation *op);
  void add(llvm::json::Object object) { code.push_back(std::move(object)); }

  mlir::LogicalResult write(mlir::Operation *op);
  mlir::LogicalResult writeFused(ps::FusedOp op);
  mlir::LogicalResult writeContract(ps::ContractOp op);
  void writeMatmul(ps::ContractOp op, const fusion::MatmulChunk &chunk);
  /// Writes a matmul in chunks. If the matmul uses the collective's result, writes a wait for one
  /// chunk of the collective before each chunk of the matmul. Otherwise writes one chunk of the
  /// collective after each chunk of the matmul.
  void writeChunks(const fusion::ChunkedMatmul &matmul, mlir::Operation *collective);
  /// Writes the instruction that a library op describes.
  mlir::LogicalResult writeCall(ps::LoweringOpInterface op);
  mlir::LogicalResult writeCollective(mlir::Operation *op);
  /// Adds the instruction for chunk `number` of the `count` chunks of a collective.
  void addCollective(mlir::Operation *op, int64_t number, int64_t count);
  void addWait(mlir::Operation *collective, int64_t number);
  mlir::LogicalResult writeWait(ps::WaitOp op);
  void writeCopies();
  /// Returns the buffers in scratch. Their lifetimes are ranges of instruction indices. `ends[i]`
  /// is the number of instructions of ops 0 to i.
  llvm::json::Array describeScratch(llvm::ArrayRef<int64_t> ends);

  mlir::func::FuncOp function;
  fusion::ClassBuffers buffers;
  KernelSet &kernels;
  llvm::json::Array code;
  llvm::DenseMap<mlir::Operation *, int64_t> tokens; ///< by collective: token of chunk 0
  int64_t tokenCount = 0;
};

} // namespace parashard::codegen

#endif
