// How one node of an exported graph becomes `ps` ops: what a converter sees, and the table of
// converters.
#ifndef PARASHARD_LIB_IMPORT_PT2_CONVERT_H
#define PARASHARD_LIB_IMPORT_PT2_CONVERT_H

#include "dialects/ps/Ps.h"
#include "lib/Import/Pt2/Graph.h"
#include "mlir/Support/DebugStringHelper.h"
#include "llvm/ADT/StringMap.h"

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

/// One node being converted: its arguments by their names in the op's schema, its results, and
/// small building blocks. Reading a missing argument without a default fails the node: the
/// converter then goes on with any value and the message is given at the end.
class NodeConverter {
public:
  NodeConverter(GraphConverter &graph, const Node &node, mlir::OpBuilder &builder,
                mlir::Location loc)
      : graph(graph), node(node), b(builder), loc(loc) {}

  // Arguments.
  bool has(llvm::StringRef name) const; ///< given, and not None
  bool isTensor(llvm::StringRef name) const;
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

  // Results.
  unsigned getNumResults() const { return node.outputs.size(); }
  bool isUsed(unsigned result) const; ///< has a name
  mlir::RankedTensorType getResultType(unsigned result = 0);
  /// Defines a result; its element type is converted to the export's where they differ.
  mlir::LogicalResult set(unsigned result, mlir::Value value);
  mlir::LogicalResult set(mlir::Value value) { return set(0, value); }
  /// The node cannot be imported: `message` says why.
  mlir::LogicalResult fail(const llvm::Twine &message);
  bool failed() const { return !failure.empty(); }
  llvm::StringRef getFailure() const { return failure; }

  // Building.
  template <typename Op, typename... Args> Op make(Args &&...args) {
    return Op::create(b, loc, std::forward<Args>(args)...);
  }
  mlir::Value splat(mlir::RankedTensorType type, double value);
  mlir::Value convert(mlir::Value value, mlir::Type elementType);
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  mlir::Value transpose(mlir::Value value, llvm::ArrayRef<int64_t> permutation);
  mlir::Value swapDims(mlir::Value value, int64_t dim0, int64_t dim1);
  mlir::Value slice(mlir::Value value, int64_t dim, int64_t start, int64_t limit,
                    int64_t stride = 1);
  mlir::Value concat(mlir::ValueRange values, int64_t dim);
  /// PyTorch's broadcasting: dims are aligned at the end, dims of size 1 repeat.
  mlir::Value broadcast(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  mlir::Value reduce(ps::ReductionKind kind, mlir::Value value, llvm::ArrayRef<int64_t> dims,
                     bool keepDims);
  mlir::Value compare(ps::Predicate predicate, mlir::Value lhs, mlir::Value rhs);
  /// In f32 when the value has 16-bit floats, in which PyTorch computes such ops too.
  mlir::Value widen(mlir::Value value);
  mlir::Value divide(mlir::Value value, double divisor);
  /// A `ps.contract`; transposes of operands go into the labels.
  mlir::Value contract(mlir::Value lhs, llvm::ArrayRef<int64_t> lhsLabels, mlir::Value rhs,
                       llvm::ArrayRef<int64_t> rhsLabels, llvm::ArrayRef<int64_t> resultLabels);
  /// What stands at `place` (of size 1 along `dim`) along `dim`, which keeps its dim; 0 where there
  /// is no such place. The gradient goes to that place alone.
  mlir::Value takePlace(mlir::Value value, mlir::Value place, int64_t dim);
  /// The argument `dim` as dims of `value`; all of them where it is absent or empty.
  llvm::SmallVector<int64_t> reducedDims(mlir::Value value);
  static int64_t countElements(mlir::Value value, llvm::ArrayRef<int64_t> dims);
  /// The shape that PyTorch broadcasts both to.
  llvm::SmallVector<int64_t> commonShape(mlir::Value lhs, mlir::Value rhs);
  /// The value of dim `dim` counted from the end when negative.
  static int64_t wrapDim(int64_t dim, int64_t rank) { return dim < 0 ? dim + rank : dim; }
  llvm::SmallVector<int64_t> wrapDims(llvm::ArrayRef<int64_t> dims, int64_t rank);
  mlir::RankedTensorType typeLike(mlir::Value value, mlir::Type elementType);

  mlir::Type f32() { return b.getF32Type(); }
  mlir::Type i1() { return b.getI1Type(); }
  mlir::Type i64() { return b.getI64Type(); }

  GraphConverter &graph;
  const Node &node;
  mlir::OpBuilder &b;
  mlir::Location loc;

private:
  const Argument *require(llvm::StringRef name);
  int64_t evaluate(const Size &size);

  std::string failure;
};

inline mlir::RankedTensorType getType(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}
inline llvm::ArrayRef<int64_t> getShape(mlir::Value value) { return getType(value).getShape(); }
inline int64_t getRank(mlir::Value value) { return getType(value).getRank(); }
inline mlir::Type getElement(mlir::Value value) { return getType(value).getElementType(); }
inline bool isFloat(mlir::Value value) { return llvm::isa<mlir::FloatType>(getElement(value)); }

/// The type in which PyTorch computes on two tensors (a tensor without dims yields to one of its
/// kind with dims).
mlir::Type promoteTypes(mlir::Value lhs, mlir::Value rhs);
/// The type in which PyTorch computes on a tensor and a number.
mlir::Type promoteTypes(mlir::Value tensor, Scalar scalar);

/// The sum of all elements.
mlir::Value sumAll(NodeConverter &n, mlir::Value value);

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

/// The converters of all families.
ConverterTable getConverterTable();
/// The converter of an op; null when there is none. In-place ops have that of their pure twin.
ConverterFunction findConverter(const ConverterTable &table, const Node &node);
/// Higher-order ops whose body is inlined ("higher_order.wrap_with_set_grad_enabled").
bool isInlined(const Node &node);

} // namespace parashard::import

#endif
