// How one node of an ONNX graph becomes `ps` ops: what a converter sees, and the table of
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

/// The element type of a TensorProto.DataType; null when `ps` has none.
mlir::Type getOnnxElementType(int32_t dtype, mlir::MLIRContext *context);

/// A constant of the file or of a node, in its smallest form.
mlir::Value buildOnnxConstant(TensorBuilder &n, mlir::RankedTensorType type, llvm::StringRef bytes);

/// The values of one graph, or of one call of a function. All sizes are known: a value's shape is
/// that of the ops it was built from.
struct OnnxScope {
  llvm::StringMap<mlir::Value> values;
  llvm::StringMap<llvm::SmallVector<mlir::Value>> sequences;
  /// Of a function: what a call gives, by name.
  llvm::StringMap<const onnx::AttributeProto *> attributes;
  int64_t opset = 0;
  llvm::StringSet<> live; ///< names that something reads
};

/// The kinds of attributes (AttributeProto.AttributeType).
enum class OnnxKind { Float = 1, Int, String, Tensor, Graph, Floats, Ints };

/// One node being converted. Reading what is not there fails the node: the converter then goes on
/// with any value and the message is given at the end.
class OnnxNode : public TensorBuilder {
public:
  OnnxNode(OnnxScope &scope, const onnx::NodeProto &node, mlir::OpBuilder &builder,
           mlir::Location loc)
      : TensorBuilder(builder, loc), scope(scope), node(node) {}

  // Inputs. Reading an input marks it.
  unsigned getNumInputs() const { return node.input_size(); }
  bool has(unsigned i); ///< given, and not the empty name
  mlir::Value input(unsigned i);
  mlir::Value optionalInput(unsigned i); ///< null when absent
  llvm::SmallVector<mlir::Value> inputs();
  const llvm::SmallVector<mlir::Value> *sequence(unsigned i);
  /// The value of an input that constants alone define; fails where it depends on more.
  std::optional<ps::Tensor> constantInput(unsigned i);
  llvm::SmallVector<int64_t> integersInput(unsigned i);
  std::optional<double> numberInput(unsigned i); ///< of a tensor with one value everywhere

  // Attributes. Reading an attribute marks it; one of another kind fails the node.
  const onnx::AttributeProto *attribute(llvm::StringRef name, OnnxKind kind);
  bool hasAttribute(llvm::StringRef name) const { return findAttribute(name); }
  int64_t integer(llvm::StringRef name, int64_t otherwise);
  double number(llvm::StringRef name, double otherwise);
  std::string string(llvm::StringRef name, llvm::StringRef otherwise);
  llvm::SmallVector<int64_t> integers(llvm::StringRef name);
  /// The value of an attribute: that of the call where the node stands in a function.
  const onnx::AttributeProto *resolve(const onnx::AttributeProto &attribute) const;
  /// Marks attributes that do not change what the importer builds.
  void haveNoEffect(std::initializer_list<llvm::StringRef> names) {
    readAttributes.insert(names.begin(), names.end());
  }
  /// Fails where no converter has read an attribute or an input, or has looked at a result.
  mlir::LogicalResult checkRead();
  /// An attribute of earlier opsets that became input `i`; empty where neither is given.
  llvm::SmallVector<int64_t> integersOf(llvm::StringRef name, unsigned i);
  int64_t getOpset() const { return scope.opset; }
  /// The attribute `axis`, of `rank` dims, counted from the end when negative; fails out of range.
  int64_t axis(int64_t otherwise, int64_t rank);
  /// Fails unless a tensor may have this shape: no negative sizes, a number of elements that is
  /// counted in 40 bits.
  bool checkShape(llvm::ArrayRef<int64_t> shape);

  // Results. Asking for one or setting it marks it.
  bool isUsed(unsigned result);
  unsigned getNumResults() const { return node.output_size(); }
  /// Defines a result. Small ones that constants alone define become constants.
  mlir::LogicalResult set(unsigned result, mlir::Value value);
  mlir::LogicalResult set(mlir::Value value) { return set(0, value); }
  mlir::LogicalResult setSequence(llvm::SmallVector<mlir::Value> values);
  /// Fails where something reads a result from `first` on.
  mlir::LogicalResult onlyResults(unsigned first, llvm::StringRef what);

  /// Both inputs in their common shape.
  std::pair<mlir::Value, mlir::Value> broadcastInputs(unsigned lhs = 0, unsigned rhs = 1);

  OnnxScope &scope;
  const onnx::NodeProto &node;

private:
  const onnx::AttributeProto *findAttribute(llvm::StringRef name) const;

  llvm::StringSet<> readAttributes;
  llvm::SmallDenseSet<unsigned> readInputs, knownResults;
};

/// A tensor that stands in a node as a constant; null after a failure of the node.
mlir::Value buildOnnxTensor(OnnxNode &n, const onnx::TensorProto &tensor);

using OnnxConverter = mlir::LogicalResult (*)(OnnxNode &);
/// By the op's type in ONNX's own domain.
using OnnxConverterTable = llvm::StringMap<OnnxConverter>;

// One function a family; each adds its ops to the table, one line an op.
void addOnnxElementConverters(OnnxConverterTable &table);
void addOnnxActivationConverters(OnnxConverterTable &table);
void addOnnxLogicConverters(OnnxConverterTable &table);
void addOnnxShapeConverters(OnnxConverterTable &table);
void addOnnxCreationConverters(OnnxConverterTable &table);
void addOnnxIndexingConverters(OnnxConverterTable &table);
void addOnnxContractionConverters(OnnxConverterTable &table);
void addOnnxReductionConverters(OnnxConverterTable &table);
void addOnnxNormalizationConverters(OnnxConverterTable &table);
void addOnnxLossConverters(OnnxConverterTable &table);
void addOnnxAttentionConverters(OnnxConverterTable &table);
void addOnnxWindowConverters(OnnxConverterTable &table);
void addOnnxResizeConverters(OnnxConverterTable &table);

/// The converters of all families.
OnnxConverterTable getOnnxConverterTable();
/// "Add", or "com.microsoft.Gelu" of another domain.
std::string getOpName(const onnx::NodeProto &node);

} // namespace parashard::import

#endif
