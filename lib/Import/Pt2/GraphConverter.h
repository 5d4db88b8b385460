// Declares the conversion of the nodes of an exported program's graph.
#ifndef PARASHARD_LIB_IMPORT_PT2_GRAPHCONVERTER_H
#define PARASHARD_LIB_IMPORT_PT2_GRAPHCONVERTER_H

#include "lib/Import/Pt2/Convert.h"
#include "lib/Import/Pt2/Sizes.h"
#include "lib/Import/Pt2/Variables.h"
#include "lib/Import/Pt2/Views.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/StringSet.h"

namespace parashard::import {

/// Converts the nodes of one graph at the builder's insertion point. Bodies of inlined nodes have
/// their own GraphConverter.
class GraphConverter {
public:
  GraphConverter(const Graph &graph, const SizeBinding &sizes, const ConverterTable &table,
                 mlir::OpBuilder &builder)
      : graph(graph), sizes(sizes), table(table), b(builder), views(graph, sizes) {}

  /// Converts the live nodes. Emits a diagnostic for each node that fails, and continues with the
  /// others. Fails if any node fails.
  mlir::LogicalResult run(const llvm::StringSet<> &liveOutputs);

  /// Returns a value of the graph, or null if its node has not been converted or has failed.
  mlir::Value lookup(llvm::StringRef name) const { return values.lookup(name); }
  void define(llvm::StringRef name, mlir::Value value) { values[name] = value; }
  /// Sets `ps.batch_number` to `loc`, a line of the model whose result depends on the batch size.
  /// Only the first call has an effect.
  void markBatchNumber(mlir::Location loc);
  const SizeBinding &getSizes() const { return sizes; }
  const Graph &getGraph() const { return graph; }
  const Views &getViews() const { return views; }
  /// Returns the type of a value in the export. Fails if the type is not supported.
  llvm::Expected<mlir::RankedTensorType> getType(llvm::StringRef name) const;
  /// Writes `value` in place: defines a new value of `name`, and of all tensors that `name` is a
  /// view of.
  mlir::LogicalResult write(llvm::StringRef name, mlir::Value value, mlir::Location loc);

private:
  mlir::LogicalResult convert(const Node &node);
  mlir::LogicalResult inlineGraph(const Node &node, mlir::Location loc);
  /// Fails if an in-place write that autograd does not record (no_grad, detach) overwrites a value
  /// that requires grad. Checks the tensor `name`, and the tensors that `name` is a view of. In
  /// PyTorch, an overwritten tensor keeps its grad_fn, so the gradient of the new value goes to the
  /// ops that computed the old value.
  mlir::LogicalResult checkUntrackedWrite(llvm::StringRef name, const llvm::Twine &how,
                                          mlir::Location loc);
  /// Recomputes the view `name` if its base was written after the view was computed.
  mlir::LogicalResult refresh(llvm::StringRef name, mlir::Location reader);
  mlir::LogicalResult refreshOperands(const Node &node, mlir::Location loc);
  void markFresh(const Node &node);
  /// Handles a node that sums a value over the batch dim, if the value does not depend on an input.
  /// Such a sum is proportional to the batch size. Example: the sum of a parameter that is expanded
  /// to all samples. If the sum is a constant, and only divisions use it, replaces it by a number.
  /// Else calls `markBatchNumber`.
  void markSumOfBatch(const Node &node, mlir::Location loc);
  bool readsUndefined(const Node &node) const;
  /// Returns true if a node of the graph has a result with this name.
  bool definesResult(llvm::StringRef name) const;

  const Graph &graph;
  const SizeBinding &sizes;
  const ConverterTable &table;
  mlir::OpBuilder &b;
  llvm::StringMap<mlir::Value> values;
  Views views;
  llvm::StringMap<unsigned> writes; ///< number of writes to the memory of each root
  /// For each value: the number of writes to its root at the time when the value was last computed.
  /// The root is the tensor that owns the memory.
  llvm::StringMap<unsigned> seen;
  llvm::StringSet<> failedValues;
};

/// Returns one bit per node: true if `outputs` depend on the node, through its results or its
/// in-place writes.
llvm::BitVector findLiveNodes(const Graph &graph, const llvm::StringSet<> &outputs,
                              const Views &views);
/// Returns a message that lists the live nodes that cannot be converted, or "" if all live nodes
/// can be converted. A node cannot be converted if it has no converter, or if it may write tensors
/// in an unknown way (`hasUnknownWrites`).
std::string describeUnsupported(const Graph &graph, const llvm::StringSet<> &outputs,
                                const ConverterTable &table, const SizeBinding &sizes);

} // namespace parashard::import

#endif
