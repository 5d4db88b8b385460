// Converts one node of an exported graph to `ps` ops: the interface of converters, and their table.
#ifndef PARASHARD_LIB_IMPORT_PT2_CONVERT_H
#define PARASHARD_LIB_IMPORT_PT2_CONVERT_H

#include "dialects/ps/Ps.h"
#include "lib/Import/Build.h"
#include "lib/Import/Pt2/Graph.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace parashard::import {

class GraphConverter;

/// A number argument: an int, a float or a bool of the op's schema.
struct Scalar {
  double value = 0;
  bool isFloat = false;
  bool isBool = false;
};

/// Returns the element type of a torch.ScalarType; null if `ps` has none (complex, fp8, quantized).
mlir::Type getElementType(ScalarType dtype, mlir::MLIRContext *context);
/// Returns the name of a dtype. Example: "torch.complex64".
std::string getDtypeName(ScalarType dtype);

/// One node being converted: its arguments, by their names in the op's schema, and its results.
/// Reading a missing argument without a default fails the node. The converter then continues with
/// an arbitrary value, and the message is reported at the end.
class NodeConverter : public TensorBuilder {
public:
  NodeConverter(GraphConverter &graph, const Node &node, mlir::OpBuilder &builder,
                mlir::Location loc)
      : TensorBuilder(builder, loc), graph(graph), node(node) {}

  // Arguments. Reading an argument marks it as read.
  const Argument *find(llvm::StringRef name);
  bool has(llvm::StringRef name); ///< given, and not None
  bool isTensor(llvm::StringRef name);
  mlir::Value tensor(llvm::StringRef name);
  mlir::Value optionalTensor(llvm::StringRef name);             ///< null if None
  llvm::SmallVector<mlir::Value> tensors(llvm::StringRef name); ///< null for each None
  int64_t integer(llvm::StringRef name);
  int64_t integer(llvm::StringRef name, int64_t fallback);
  llvm::SmallVector<int64_t>
  integers(llvm::StringRef name); ///< an int is a list of one; None is empty
  double number(llvm::StringRef name, double fallback);
  bool boolean(llvm::StringRef name, bool fallback);
  std::string string(llvm::StringRef name);
  Scalar scalar(llvm::StringRef name);
  /// Marks arguments as read whose effect is already part of the result's type, such as sizes of a
  /// view or a dtype.
  void areInResultType(std::initializer_list<llvm::StringRef> names) {
    readArguments.insert(names.begin(), names.end());
  }
  /// Marks arguments that do not change what the importer builds.
  void haveNoEffect(std::initializer_list<llvm::StringRef> names) {
    readArguments.insert(names.begin(), names.end());
  }
  /// Fails if the converter did not read an argument.
  mlir::LogicalResult checkRead();

  // Results.
  unsigned getNumResults() const { return node.outputs.size(); }
  bool isUsed(unsigned result) const; ///< the result has a name
  mlir::RankedTensorType getResultType(unsigned result = 0);
  /// Defines a result. Converts its element type to that of the export.
  mlir::LogicalResult set(unsigned result, mlir::Value value);
  mlir::LogicalResult set(mlir::Value value) { return set(0, value); }
  /// Writes a tensor argument in place. `value` is its new content.
  mlir::LogicalResult write(llvm::StringRef name, mlir::Value value);
  /// Returns the argument `dim` as dims of `value`; all dims if it is absent or empty.
  llvm::SmallVector<int64_t> reducedDims(mlir::Value value);

  GraphConverter &graph;
  const Node &node;

private:
  const Argument *require(llvm::StringRef name);
  int64_t evaluate(const Size &size);
  /// Marks the module if the op computes with the number of samples in the batch.
  void markBatchNumber(const Size &size);

  llvm::StringSet<> readArguments;
};

/// Returns the type in which PyTorch computes on two tensors. A tensor without dims takes the type
/// of a tensor with dims, unless its category is higher (bool < integer < floating-point).
mlir::Type promoteTypes(mlir::Value lhs, mlir::Value rhs);
/// Returns the type in which PyTorch computes on a tensor and a number.
mlir::Type promoteTypes(mlir::Value tensor, Scalar scalar);

using Converter = llvm::function_ref<mlir::LogicalResult(NodeConverter &)>;
using ConverterFunction = mlir::LogicalResult (*)(NodeConverter &);
/// Converters by the op's name: "aten.add.Tensor"; "aten.add" stands for all overloads.
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
