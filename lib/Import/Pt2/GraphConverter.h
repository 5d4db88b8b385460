// Converts the nodes of an exported program's graph, each with the converter of its op.
#ifndef PARASHARD_LIB_IMPORT_PT2_GRAPHCONVERTER_H
#define PARASHARD_LIB_IMPORT_PT2_GRAPHCONVERTER_H

#include "lib/Import/Pt2/Convert.h"
#include "lib/Import/Pt2/Sizes.h"
#include "lib/Import/Pt2/Variables.h"
#include "lib/Import/Pt2/Views.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/StringSet.h"

namespace parashard::import {

/// Converts the nodes of one graph at a builder's insertion point. Inlined graphs are converted
/// recursively.
class GraphConverter {
public:
  GraphConverter(const Graph &graph, const SizeBinding &sizes, const ConverterTable &table,
                 mlir::OpBuilder &builder)
      : graph(graph), sizes(sizes), table(table), b(builder), views(graph, sizes) {}

  /// Converts every live node. Tries all nodes before failing; each failure is a diagnostic at its
  /// node.
  mlir::LogicalResult run(const llvm::StringSet<> &liveOutputs);

  /// Returns null if the value was never defined, or if its definition failed.
  mlir::Value lookup(llvm::StringRef name) const { return values.lookup(name); }
  void define(llvm::StringRef name, mlir::Value value) { values[name] = value; }
  /// Records (`ps.batch_number`) that the model computes with its number of samples at `loc`. Only
  /// the first call has an effect.
  void markBatchNumber(mlir::Location loc);
  const SizeBinding &getSizes() const { return sizes; }
  const Graph &getGraph() const { return graph; }
  const Views &getViews() const { return views; }
  /// Returns the type of a value in the export. Fails if `ps` does not support it.
  llvm::Expected<mlir::RankedTensorType> getType(llvm::StringRef name) const;
  /// Writes in place: defines a new value for the name, and for all tensors that it is a view of.
  mlir::LogicalResult write(llvm::StringRef name, mlir::Value value, mlir::Location loc);

private:
  mlir::LogicalResult convert(const Node &node);
  mlir::LogicalResult inlineGraph(const Node &node, mlir::Location loc);
  /// Fails if an in-place write that autograd does not see replaces a value that needs a gradient.
  /// The value is `name`, or a tensor that `name` is a view of. PyTorch would pass the gradient to
  /// the old value.
  mlir::LogicalResult checkUntrackedWrite(llvm::StringRef name, const llvm::Twine &how,
                                          mlir::Location loc);
  /// Recomputes a view if its base was written since.
  mlir::LogicalResult refresh(llvm::StringRef name, mlir::Location reader);
  mlir::LogicalResult refreshOperands(const Node &node, mlir::Location loc);
  void markFresh(const Node &node);
  /// Calls `markBatchNumber` if the node sums, over the batch, a value that does not depend on an
  /// input. Such a sum grows with the number of samples. Example: a sum over a parameter that is
  /// expanded to all samples.
  void markSumOfBatch(const Node &node, mlir::Location loc);
  bool readsUndefined(const Node &node) const;
  /// Returns true if a node of the graph has a result of this name, whether or not it has a
  /// converter.
  bool definesResult(llvm::StringRef name) const;

  const Graph &graph;
  const SizeBinding &sizes;
  const ConverterTable &table;
  mlir::OpBuilder &b;
  llvm::StringMap<mlir::Value> values;
  Views views;
  llvm::StringMap<unsigned> writes; ///< number of writes to the memory of each root
  llvm::StringMap<unsigned> seen;   ///< `writes` of its root when a view was last computed
  llvm::StringSet<> failedValues;
};

/// Finds the nodes whose results or in-place writes are read. Starts from the outputs.
llvm::BitVector findLiveNodes(const Graph &graph, const llvm::StringSet<> &outputs,
                              const Views &views);
/// Describes all live nodes without a converter in one message; empty if there are none.
std::string describeUnsupported(const Graph &graph, const llvm::StringSet<> &outputs,
                                const ConverterTable &table, const SizeBinding &sizes);

} // namespace parashard::import

#endif
