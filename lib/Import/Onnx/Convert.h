// Declares the interface of ONNX converters, which convert one node to `ps` ops, and the table of
// converters.
#ifndef PARASHARD_LIB_IMPORT_ONNX_CONVERT_H
#define PARASHARD_LIB_IMPORT_ONNX_CONVERT_H

#include "lib/Import/Build.h"
#include "lib/Import/Onnx/Model.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include <optional>

namespace parashard::import {

/// Returns the element type of a TensorProto.DataType, or null if it is not supported.
mlir::Type getOnnxElementType(int32_t dtype, mlir::MLIRContext *context);

/// Builds a constant in its smallest form: a splat, a progression, a triangle, or all elements.
/// `bytes` are the elements, row-major.
mlir::Value buildOnnxConstant(TensorBuilder &n, mlir::RankedTensorType type, llvm::StringRef bytes);

/// The values of one graph, or of one call of a function. All values have static shapes.
struct OnnxScope {
  llvm::StringMap<mlir::Value> values;
  llvm::StringMap<llvm::SmallVector<mlir::Value>> sequences;
  /// Attributes of a function call, by name.
  llvm::StringMap<const onnx::AttributeProto *> attributes;
  int64_t opset = 0;
  llvm::StringSet<> live; ///< names of the values that live nodes and outputs read
};

/// The kinds of attributes (AttributeProto.AttributeType).
enum class OnnxKind { Float = 1, Int, String, Tensor, Graph, Floats, Ints };

/// The node that a converter converts. If a required input is missing, or an input or attribute is
/// not valid, the node fails (`TensorBuilder::fail`). The converter then continues with an
/// arbitrary value, and the message is reported at the end.
class OnnxNode : public TensorBuilder {
public:
  OnnxNode(OnnxScope &scope, const onnx::NodeProto &node, mlir::OpBuilder &builder,
           mlir::Location loc)
      : TensorBuilder(builder, loc), scope(scope), node(node) {}

  // Inputs. Each access records the input as read.
  unsigned getNumInputs() const { return node.input_size(); }
  bool has(unsigned i); ///< true if the input exists and its name is not empty
  mlir::Value input(unsigned i);
  mlir::Value optionalInput(unsigned i); ///< null if absent
  llvm::SmallVector<mlir::Value> inputs();
  const llvm::SmallVector<mlir::Value> *sequence(unsigned i);
  /// Returns the elements of an input that only depends on constants. Fails for other inputs.
  std::optional<ps::Tensor> constantInput(unsigned i);
  llvm::SmallVector<int64_t> integersInput(unsigned i);
  /// Returns the value of a constant input whose elements are all equal. Returns nullopt for other
  /// inputs.
  std::optional<double> numberInput(unsigned i);

  // Attributes. Each access except `hasAttribute` records the attribute as read. The node fails if
  // an attribute does not have the requested kind.
  const onnx::AttributeProto *attribute(llvm::StringRef name, OnnxKind kind);
  bool hasAttribute(llvm::StringRef name) const { return findAttribute(name); }
  int64_t integer(llvm::StringRef name, int64_t fallback);
  double number(llvm::StringRef name, double fallback);
  std::string string(llvm::StringRef name, llvm::StringRef fallback);
  llvm::SmallVector<int64_t> integers(llvm::StringRef name);
  /// Returns the value of an attribute. If the attribute refers to an attribute of the enclosing
  /// function, returns the value from the call of the function.
  const onnx::AttributeProto *resolve(const onnx::AttributeProto &attribute) const;
  /// Records attributes as read because they have no effect on the imported ops.
  void markWithoutEffect(std::initializer_list<llvm::StringRef> names) {
    readAttributes.insert(names.begin(), names.end());
  }
  /// Fails if the converter did not read an attribute or input, or did not handle a result.
  mlir::LogicalResult checkRead();
  /// Returns a list of integers: input `i`, or the attribute `name` in earlier opsets. Returns an
  /// empty list if both are missing.
  llvm::SmallVector<int64_t> integersOf(llvm::StringRef name, unsigned i);
  int64_t getOpset() const { return scope.opset; }
  /// Returns the attribute `axis` as a dim in [0, rank). Negative values count from the end. Fails
  /// if the axis is out of range.
  int64_t axis(int64_t fallback, int64_t rank);
  /// Fails if a size of the shape is negative, or if the shape has more than 2^40 elements.
  bool checkShape(llvm::ArrayRef<int64_t> shape);

  // Results. `isUsed`, `set` and `onlyResults` record a result as handled.
  bool isUsed(unsigned result);
  unsigned getNumResults() const { return node.output_size(); }
  /// Defines a result. Small results that depend only on constants become constants.
  mlir::LogicalResult set(unsigned result, mlir::Value value);
  mlir::LogicalResult set(mlir::Value value) { return set(0, value); }
  mlir::LogicalResult setSequence(llvm::SmallVector<mlir::Value> values);
  /// Fails if the model reads result `first` or a later result. `description` names these results
  /// in the message.
  mlir::LogicalResult onlyResults(unsigned first, llvm::StringRef description);

  /// Returns both inputs, broadcast to their common shape.
  std::pair<mlir::Value, mlir::Value> broadcastInputs(unsigned lhs = 0, unsigned rhs = 1);

  OnnxScope &scope;
  const onnx::NodeProto &node;

private:
  const onnx::AttributeProto *findAttribute(llvm::StringRef name) const;

  llvm::StringSet<> readAttributes;
  llvm::SmallDenseSet<unsigned> readInputs, knownResults;
};

/// Builds a constant from a tensor that is stored in a node. Returns null if the node fails.
mlir::Value buildOnnxTensor(OnnxNode &n, const onnx::TensorProto &tensor);

using OnnxConverter = mlir::LogicalResult (*)(OnnxNode &);
/// Converters by op name (`getOpName`).
using OnnxConverterTable = llvm::StringMap<OnnxConverter>;

// Each function adds the ops of one family to the table, one line per op.
void addOnnxElementConverters(OnnxConverterTable &table);
void addOnnxActivationConverters(OnnxConverterTable &table);
void addOnnxLogicConverters(OnnxConverterTable &table);
void addOnnxShapeConverters(OnnxConverterTable &table);
void addOnnxCreationConverters(OnnxConverterTable &table);
void addOnnxIndexingConverters(OnnxConverterTable &table);
void addOnnxContractionConverters(OnnxConverterTable &table);
void addOnnxReductionConverters(OnnxConverterTable &table);
void addOnnxSortConverters(OnnxConverterTable &table);
void addOnnxNormalizationConverters(OnnxConverterTable &table);
void addOnnxLossConverters(OnnxConverterTable &table);
void addOnnxAttentionConverters(OnnxConverterTable &table);
void addOnnxWindowConverters(OnnxConverterTable &table);
void addOnnxResizeConverters(OnnxConverterTable &table);

/// Returns the converters of all families.
OnnxConverterTable getOnnxConverterTable();
/// Returns the op's name: "Add", or "com.microsoft.Gelu" in another domain.
std::string getOpName(const onnx::NodeProto &node);

} // namespace parashard::import

#endif
