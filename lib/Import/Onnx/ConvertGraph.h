// Converts the nodes of an ONNX graph, and inlines calls of the model's own functions.
#ifndef PARASHARD_LIB_IMPORT_ONNX_CONVERTGRAPH_H
#define PARASHARD_LIB_IMPORT_ONNX_CONVERTGRAPH_H

#include "lib/Import/MissingOps.h"
#include "lib/Import/Onnx/Convert.h"

namespace parashard::import {

using OnnxNodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

/// Returns the nodes whose results are read, in order. `read` returns the names read: `outputs`,
/// and all names that nodes and the branches of an `If` read.
std::vector<const onnx::NodeProto *>
findLiveNodes(const OnnxNodes &nodes, llvm::ArrayRef<std::string> outputs, llvm::StringSet<> &read);

class OnnxGraphConverter {
public:
  OnnxGraphConverter(const OnnxModel &model, mlir::OpBuilder &builder);

  /// Describes all live nodes without a converter, those of functions included, or reports that
  /// there are too many nodes. Returns "" if all nodes can be converted.
  std::string describeUnsupported(llvm::ArrayRef<const onnx::NodeProto *> nodes) const;
  /// Converts nodes in order. Tries all nodes before failing; each failure is a diagnostic at its
  /// node.
  mlir::LogicalResult run(llvm::ArrayRef<const onnx::NodeProto *> nodes, OnnxScope &scope) {
    return run(nodes, scope, root);
  }

  /// Fails if two nodes of a graph define one name, or if a node defines one of `names` (inputs and
  /// initializers).
  mlir::LogicalResult checkNames(const OnnxNodes &nodes, llvm::StringSet<> names,
                                 const SourceLocation &caller) const;
  mlir::LogicalResult checkNames(const OnnxNodes &nodes, llvm::StringSet<> names) const {
    return checkNames(nodes, std::move(names), root);
  }

private:
  const onnx::FunctionProto *findFunction(const onnx::NodeProto &node) const;
  void collectUnsupported(llvm::ArrayRef<const onnx::NodeProto *> nodes,
                          const SourceLocation &caller, unsigned depth, size_t &visited,
                          MissingOps &missing) const;
  std::string describeTooMany() const;
  mlir::LogicalResult run(llvm::ArrayRef<const onnx::NodeProto *> nodes, OnnxScope &scope,
                          const SourceLocation &caller);
  mlir::LogicalResult convert(const onnx::NodeProto &node, OnnxScope &scope,
                              const SourceLocation &source);
  mlir::LogicalResult inlineFunction(const onnx::NodeProto &node,
                                     const onnx::FunctionProto &function, OnnxScope &scope,
                                     const SourceLocation &source);
  /// Inlines the branch that the condition of an `If` chooses. The condition must be a constant.
  /// The branch may read outer values; names that it defines are local.
  mlir::LogicalResult inlineBranch(OnnxNode &choice, const SourceLocation &source);
  mlir::LogicalResult convertBranch(OnnxNode &choice, const onnx::GraphProto &graph,
                                    const SourceLocation &source,
                                    llvm::SmallVector<mlir::Value> &results);

  mlir::OpBuilder &b;
  OnnxConverterTable table;
  SourceLocation root; ///< location of nodes without metadata: the model's file
  std::map<std::string, const onnx::FunctionProto *> functions;
  unsigned depth = 0;
  size_t converted = 0, mostNodes = 0; ///< numbers of nodes, those of functions included
};

} // namespace parashard::import

#endif
