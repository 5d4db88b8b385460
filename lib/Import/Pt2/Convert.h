// Declares the interface of `.pt2` converters, which convert one node to `ps` ops, and the table of
// converters.
#ifndef PARASHARD_LIB_IMPORT_PT2_CONVERT_H
#define PARASHARD_LIB_IMPORT_PT2_CONVERT_H

#include "dialects/ps/Ps.h"
#include "lib/Import/Build.h"
#include "lib/Import/Pt2/Graph.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace parashard::import {

class GraphConverter;

/// A value of a Scalar argument in the op's schema: an int, a float or a bool.
struct Scalar {
  double value = 0;
  bool isFloat = false;
  bool isBool = false;
};

/// Returns the element type of a torch.ScalarType, or null if it is not supported (complex, fp8,
/// quantized).
mlir::Type getElementType(ScalarType dtype, mlir::MLIRContext *context);
/// Returns the name of a dtype. Example: "torch.complex64".
std::string getDtypeName(ScalarType dtype);

/// The node that a converter converts. Gives access to the node's arguments, by their names in the
/// op's schema, and to its results. If a required argument is missing, the node fails
/// (`TensorBuilder::fail`). The converter then continues with an arbitrary value, and the message
/// is reported at the end.
class NodeConverter : public TensorBuilder {
public:
  NodeConverter(GraphConverter &graph, const Node &node, mlir::OpBuilder &builder,
                mlir::Location loc)
      : TensorBuilder(builder, loc), graph(graph), node(node) {}

  // Arguments. Each access records the argument as read.
  const Argument *find(llvm::StringRef name);
  bool has(llvm::StringRef name); ///< true if the argument exists and is not None
  bool isTensor(llvm::StringRef name);
  mlir::Value tensor(llvm::StringRef name);
  mlir::Value optionalTensor(llvm::StringRef name);             ///< null if None
  llvm::SmallVector<mlir::Value> tensors(llvm::StringRef name); ///< null for each None
  int64_t integer(llvm::StringRef name);
  int64_t integer(llvm::StringRef name, int64_t fallback);
  /// Returns a list of ints. A single int is a list of one; None is an empty list.
  llvm::SmallVector<int64_t> integers(llvm::StringRef name);
  double number(llvm::StringRef name, double fallback);
  bool boolean(llvm::StringRef name, bool fallback);
  std::string string(llvm::StringRef name);
  Scalar scalar(llvm::StringRef name);
  /// Records arguments as read because they only affect the result's type. Example: the sizes of a
  /// view.
  void markTypeOnly(std::initializer_list<llvm::StringRef> names) {
    readArguments.insert(names.begin(), names.end());
  }
  /// Records arguments as read because they have no effect on the imported ops.
  void markWithoutEffect(std::initializer_list<llvm::StringRef> names) {
    readArguments.insert(names.begin(), names.end());
  }
  /// Fails if the converter did not read an argument.
  mlir::LogicalResult checkRead();

  // Results.
  unsigned getNumResults() const { return node.outputs.size(); }
  bool isUsed(unsigned result) const; ///< true if the result has a name
  mlir::RankedTensorType getResultType(unsigned result = 0);
  /// Defines a result. Converts `value` to the element type that the export records.
  mlir::LogicalResult set(unsigned result, mlir::Value value);
  mlir::LogicalResult set(mlir::Value value) { return set(0, value); }
  /// Writes a tensor argument in place. `value` is its new content.
  mlir::LogicalResult write(llvm::StringRef name, mlir::Value value);
  /// Returns the argument `dim` as nonnegative dims of `value`, or all dims if the argument is
  /// missing or empty.
  llvm::SmallVector<int64_t> reducedDims(mlir::Value value);

  GraphConverter &graph;
  const Node &node;

private:
  const Argument *require(llvm::StringRef name);
  int64_t evaluate(const Size &size);
  /// Sets `ps.batch_number` on the module if `size` depends on the batch size. `size` is a number
  /// with which the op computes. Exceptions: the length of an arange, and a divisor that is a
  /// multiple of the batch size.
  void markBatchNumber(const Size &size);

  llvm::StringSet<> readArguments;
};

/// Returns the result type of PyTorch's type promotion of two tensors. If only one tensor has dims,
/// the type of the other tensor only counts if its category is higher (bool < integer <
/// floating-point).
mlir::Type promoteTypes(mlir::Value lhs, mlir::Value rhs);
/// Returns the result type of PyTorch's type promotion of a tensor and a number.
mlir::Type promoteTypes(mlir::Value tensor, Scalar scalar);

using Converter = llvm::function_ref<mlir::LogicalResult(NodeConverter &)>;
using ConverterFunction = mlir::LogicalResult (*)(NodeConverter &);
/// Converters by op name, with or without an overload. Example: "aten.add.Tensor", or "aten.add"
/// for all overloads.
using ConverterTable = llvm::StringMap<ConverterFunction>;

// Each function adds the ops of one family to the table, one line per op.
void addArithmeticConverters(ConverterTable &table);
void addUnaryConverters(ConverterTable &table);
void addCompareConverters(ConverterTable &table);
void addMovementConverters(ConverterTable &table);
void addIndexingConverters(ConverterTable &table);
void addCreationConverters(ConverterTable &table);
void addContractionConverters(ConverterTable &table);
void addReductionConverters(ConverterTable &table);
void addSortConverters(ConverterTable &table);
void addNormalizationConverters(ConverterTable &table);
void addLossConverters(ConverterTable &table);
void addPairLossConverters(ConverterTable &table);
void addActivationConverters(ConverterTable &table);
void addNormConverters(ConverterTable &table);
void addEinsumConverters(ConverterTable &table);
void addRearrangeConverters(ConverterTable &table);
void addAttentionConverters(ConverterTable &table);
void addConvolutionConverters(ConverterTable &table);
void addPoolingConverters(ConverterTable &table);
void addInterpolationConverters(ConverterTable &table);
void addBatchNormConverters(ConverterTable &table);

/// Returns the converters of all families.
ConverterTable getConverterTable();
/// Returns the converter of an op, or null. An in-place op has the converter of its functional
/// variant.
ConverterFunction findConverter(const ConverterTable &table, const Node &node);
/// Returns true for higher-order ops whose body is inlined
/// ("higher_order.wrap_with_set_grad_enabled").
bool isInlined(const Node &node);

} // namespace parashard::import

#endif
