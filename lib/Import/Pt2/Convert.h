// How one node of an exported graph becomes `ps` ops: what a converter sees, and the table of
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

/// A number argument: an int, a float or a bool of the op's schema.
struct Scalar {
  double value = 0;
  bool isFloat = false;
  bool isBool = false;
};

/// The element type of a torch.ScalarType; null when `ps` has none (complex, fp8, quantized).
mlir::Type getElementType(ScalarType dtype, mlir::MLIRContext *context);
/// "torch.complex64".
std::string getDtypeName(ScalarType dtype);

/// One node being converted: its arguments by their names in the op's schema, and its results.
/// Reading a missing argument without a default fails the node: the
/// converter then goes on with any value and the message is given at the end.
class NodeConverter : public TensorBuilder {
public:
  NodeConverter(GraphConverter &graph, const Node &node, mlir::OpBuilder &builder,
                mlir::Location loc)
      : TensorBuilder(builder, loc), graph(graph), node(node) {}

  // Arguments. Reading an argument marks it.
  const Argument *find(llvm::StringRef name);
  bool has(llvm::StringRef name); ///< given, and not None
  bool isTensor(llvm::StringRef name);
  mlir::Value tensor(llvm::StringRef name);
  mlir::Value optionalTensor(llvm::StringRef name);             ///< null when None
  llvm::SmallVector<mlir::Value> tensors(llvm::StringRef name); ///< null for None
  int64_t integer(llvm::StringRef name);
  int64_t integer(llvm::StringRef name, int64_t otherwise);
  llvm::SmallVector<int64_t>
  integers(llvm::StringRef name); ///< one int is a list of one; None is empty
  double number(llvm::StringRef name, double otherwise);
  bool boolean(llvm::StringRef name, bool otherwise);
  std::string string(llvm::StringRef name);
  Scalar scalar(llvm::StringRef name);
  /// Marks arguments whose effect the type of the result has: sizes of a view, a dtype.
  void areInResultType(std::initializer_list<llvm::StringRef> names) {
    readArguments.insert(names.begin(), names.end());
  }
  /// Marks arguments that do not change what the importer builds.
  void haveNoEffect(std::initializer_list<llvm::StringRef> names) {
    readArguments.insert(names.begin(), names.end());
  }
  /// Fails where no converter has read an argument.
  mlir::LogicalResult checkRead();

  // Results.
  unsigned getNumResults() const { return node.outputs.size(); }
  bool isUsed(unsigned result) const; ///< has a name
  mlir::RankedTensorType getResultType(unsigned result = 0);
  /// Defines a result; its element type is converted to the export's where they differ.
  mlir::LogicalResult set(unsigned result, mlir::Value value);
  mlir::LogicalResult set(mlir::Value value) { return set(0, value); }
  /// A tensor argument is written in place: `value` is what it holds from now on.
  mlir::LogicalResult write(llvm::StringRef name, mlir::Value value);
  /// The argument `dim` as dims of `value`; all of them where it is absent or empty.
  llvm::SmallVector<int64_t> reducedDims(mlir::Value value);

  GraphConverter &graph;
  const Node &node;

private:
  const Argument *require(llvm::StringRef name);
  int64_t evaluate(const Size &size);
  /// Marks the module where the op computes with the number of samples of a batch.
  void markBatchNumber(const Size &size);

  llvm::StringSet<> readArguments;
};

/// The type in which PyTorch computes on two tensors (a tensor without dims yields to one of its
/// kind with dims).
mlir::Type promoteTypes(mlir::Value lhs, mlir::Value rhs);
/// The type in which PyTorch computes on a tensor and a number.
mlir::Type promoteTypes(mlir::Value tensor, Scalar scalar);

using Converter = llvm::function_ref<mlir::LogicalResult(NodeConverter &)>;
using ConverterFunction = mlir::LogicalResult (*)(NodeConverter &);
/// By the op's name: "aten.add.Tensor"; "aten.add" stands for all its overloads.
using ConverterTable = llvm::StringMap<ConverterFunction>;

// One function a family; each adds its ops to the table, one line an op.
void addArithmeticConverters(ConverterTable &table);
void addUnaryConverters(ConverterTable &table);
void addCompareConverters(ConverterTable &table);
void addMovementConverters(ConverterTable &table);
void addIndexingConverters(ConverterTable &table);
void addCreationConverters(ConverterTable &table);
void addContractionConverters(ConverterTable &table);
void addReductionConverters(ConverterTable &table);
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

/// The converters of all families.
ConverterTable getConverterTable();
/// The converter of an op; null when there is none. In-place ops have that of their pure twin.
ConverterFunction findConverter(const ConverterTable &table, const Node &node);
/// Higher-order ops whose body is inlined ("higher_order.wrap_with_set_grad_enabled").
bool isInlined(const Node &node);

} // namespace parashard::import

#endif
