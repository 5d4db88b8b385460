// Converts the nodes of a graph in order, and inlines functions and branches of `If`.
#include "lib/Import/Onnx/ConvertGraph.h"
#include "lib/Import/Onnx/Metadata.h"
#include "mlir/IR/Diagnostics.h"
#include "shared/Counts.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace llvm;

namespace parashard::import {

/// Maximum depth of nested function calls. Deeper nesting indicates recursion, which ONNX forbids.
static constexpr unsigned kMaxDepth = 32;
/// The maximum number of nodes after inlining is 256 times the number in the file, and at least
/// 2^14. A limit is needed since each level of calls can double the number.
static constexpr size_t kMaxCopies = 256, kFewNodes = 1 << 14;

static bool isDefaultDomain(StringRef domain) { return domain.empty() || domain == "ai.onnx"; }

template <typename Call> static std::string getFunctionKey(const Call &call, StringRef name) {
  return (call.domain() + "::" + name + "::" + call.overload()).str();
}

/// Returns true for `If`, which is replaced by the subgraph that its condition selects.
static bool isChoice(const onnx::NodeProto &node) { return getOpName(node) == "If"; }

/// Adds to `read` all names that a subgraph of a node reads, whether they are defined inside or
/// outside of the subgraph. The recursion is bounded, since the parser of the file limits the
/// nesting of subgraphs.
static void addNamesRead(const onnx::GraphProto &graph, llvm::StringSet<> &read) {
  for (const onnx::ValueInfoProto &output : graph.output())
    read.insert(output.name());
  for (const onnx::NodeProto &node : graph.node()) {
    for (const std::string &name : node.input())
      read.insert(name);
    for (const onnx::AttributeProto &attribute : node.attribute())
      if (attribute.has_g())
        addNamesRead(attribute.g(), read);
  }
}

std::vector<const onnx::NodeProto *>
findLiveNodes(const OnnxNodes &nodes, ArrayRef<std::string> outputs, llvm::StringSet<> &read) {
  for (const std::string &output : outputs)
    read.insert(output);
  std::vector<const onnx::NodeProto *> live;
  for (const onnx::NodeProto &node : reverse(nodes)) {
    if (none_of(node.output(), [&](const std::string &name) { return read.contains(name); }))
      continue;
    live.push_back(&node);
    for (const std::string &name : node.input())
      if (!name.empty())
        read.insert(name);
    for (const onnx::AttributeProto &attribute : node.attribute())
      if (attribute.has_g())
        addNamesRead(attribute.g(), read);
  }
  std::reverse(live.begin(), live.end());
  return live;
}

static std::vector<const onnx::NodeProto *> findLiveNodes(const onnx::FunctionProto &function,
                                                          llvm::StringSet<> &read) {
  std::vector<std::string> outputs(function.output().begin(), function.output().end());
  return findLiveNodes(function.node(), outputs, read);
}

OnnxGraphConverter::OnnxGraphConverter(const OnnxModel &model, OpBuilder &builder)
    : b(builder), table(getOnnxConverterTable()), root{"", model.getPath().str()} {
  size_t nodes = model.getGraph().node_size();
  for (const onnx::FunctionProto &function : model.getProto().functions()) {
    functions[getFunctionKey(function, function.name())] = &function;
    nodes += function.node_size();
  }
  maxNodes = std::max(kFewNodes, kMaxCopies * nodes);
}

const onnx::FunctionProto *OnnxGraphConverter::findFunction(const onnx::NodeProto &node) const {
  auto it = functions.find(getFunctionKey(node, node.op_type()));
  return it == functions.end() ? nullptr : it->second;
}

void OnnxGraphConverter::collectUnsupported(ArrayRef<const onnx::NodeProto *> nodes,
                                            const SourceLocation &caller, unsigned depth,
                                            size_t &visited, MissingOps &missing) const {
  for (const onnx::NodeProto *node : nodes) {
    if (++visited > maxNodes)
      return;
    SourceLocation source = getSourceLocation(*node, caller);
    if (const onnx::FunctionProto *function = findFunction(*node)) {
      llvm::StringSet<> read;
      if (depth < kMaxDepth)
        collectUnsupported(findLiveNodes(*function, read), source, depth + 1, visited, missing);
      continue;
    }
    if (!table.contains(getOpName(*node)) && !isChoice(*node))
      missing.add(getOpName(*node), source);
  }
}

std::string OnnxGraphConverter::describeUnsupported(ArrayRef<const onnx::NodeProto *> nodes) const {
  MissingOps missing;
  size_t visited = 0;
  collectUnsupported(nodes, root, 0, visited, missing);
  if (visited > maxNodes)
    return describeTooMany();
  return missing.describe("replace them in the model, or export it with torch.export instead");
}

/// Returns " (node 'NAME')", or "" for a node without a name.
static std::string describeNode(const onnx::NodeProto &node) {
  return node.name().empty() ? "" : " (node '" + node.name() + "')";
}

std::string OnnxGraphConverter::describeTooMany() const {
  return "inlining the functions of the file gives more than " + describeCount(maxNodes, "node") +
         ", which is not supported";
}

LogicalResult OnnxGraphConverter::checkNames(const OnnxNodes &nodes, llvm::StringSet<> names,
                                             const SourceLocation &caller) const {
  for (const onnx::NodeProto &node : nodes)
    for (const std::string &name : node.output())
      if (!name.empty() && !names.insert(name).second)
        return emitError(getLocation(getSourceLocation(node, caller), b.getContext()))
               << "'" << getOpName(node) << "' defines '" << name
               << "', which the graph has already defined" << describeNode(node)
               << "; give each value a unique name";
  return success();
}

LogicalResult OnnxGraphConverter::run(ArrayRef<const onnx::NodeProto *> nodes, OnnxScope &scope,
                                      const SourceLocation &caller) {
  bool ok = true;
  llvm::StringSet<> failedNames;
  for (const onnx::NodeProto *node : nodes) {
    bool readsFailed =
        any_of(node->input(), [&](const std::string &name) { return failedNames.contains(name); });
    if (!readsFailed && succeeded(convert(*node, scope, getSourceLocation(*node, caller))))
      continue;
    ok = false;
    for (const std::string &name : node->output())
      failedNames.insert(name);
  }
  return success(ok);
}

LogicalResult OnnxGraphConverter::convert(const onnx::NodeProto &node, OnnxScope &scope,
                                          const SourceLocation &source) {
  Location loc = getLocation(source, b.getContext());
  if (++converted > maxNodes)
    return converted > maxNodes + 1 ? failure() // reported once
                                    : emitError(loc) << describeTooMany();
  if (const onnx::FunctionProto *function = findFunction(node))
    return inlineFunction(node, *function, scope, source);
  OnnxNode converter(scope, node, b, loc);
  LogicalResult result =
      isChoice(node) ? inlineBranch(converter, source) : table.lookup(getOpName(node))(converter);
  if (succeeded(result) && !converter.failed() && succeeded(converter.checkRead()))
    return success();
  if (isChoice(node) && !converter.failed())
    return failure(); // reported at the branch's own nodes
  return emitError(loc) << "'" << getOpName(node) << "' "
                        << (converter.failed() ? converter.getFailure() : "cannot be imported")
                        << ", in " << describeLocation(source) << describeNode(node);
}

/// Returns the subgraph that the condition of an `If` selects, or null if the node fails.
static const onnx::GraphProto *chooseBranch(OnnxNode &choice) {
  std::optional<double> condition = choice.numberInput(0);
  if (!condition) {
    (void)choice.fail("has a condition that depends on inputs or variables of the model; it must "
                      "be known at import");
    return nullptr;
  }
  StringRef name = *condition != 0 ? "then_branch" : "else_branch";
  const onnx::AttributeProto *branch = choice.attribute(name, OnnxKind::Graph);
  choice.markWithoutEffect({"then_branch", "else_branch"}); // the other branch is not used
  if (branch && branch->has_g() && branch->g().output_size() >= int(choice.getNumResults()))
    return &branch->g();
  (void)choice.fail("has no '" + name + "' with " +
                    describeCount(choice.getNumResults(), "result"));
  return nullptr;
}

/// Makes the names that a branch defines local. The destructor restores outer values with the same
/// names.
class BranchNames {
public:
  BranchNames(OnnxScope &scope, const onnx::GraphProto &graph) : scope(scope) {
    for (const onnx::TensorProto &tensor : graph.initializer())
      outer[tensor.name()] = scope.values.lookup(tensor.name());
    for (const onnx::NodeProto &node : graph.node())
      for (const std::string &name : node.output())
        outer[name] = scope.values.lookup(name);
  }
  ~BranchNames() {
    for (const auto &entry : outer)
      scope.values[entry.first()] = entry.second;
  }

private:
  OnnxScope &scope;
  llvm::StringMap<Value> outer;
};

LogicalResult OnnxGraphConverter::inlineBranch(OnnxNode &choice, const SourceLocation &source) {
  const onnx::GraphProto *graph = chooseBranch(choice);
  SmallVector<Value> results;
  if (!graph || failed(convertBranch(choice, *graph, source, results)))
    return failure();
  for (auto [i, value] : enumerate(results))
    if (choice.isUsed(i))
      choice.scope.values[choice.node.output(i)] = value;
  return success();
}

LogicalResult OnnxGraphConverter::convertBranch(OnnxNode &choice, const onnx::GraphProto &graph,
                                                const SourceLocation &source,
                                                SmallVector<Value> &results) {
  if (graph.sparse_initializer_size())
    return choice.fail("has a branch with sparse initializers, which are not supported");
  OnnxScope &scope = choice.scope;
  BranchNames names(scope, graph);
  llvm::StringSet<> tensors;
  for (const onnx::TensorProto &tensor : graph.initializer()) {
    tensors.insert(tensor.name());
    scope.values[tensor.name()] = buildOnnxTensor(choice, tensor);
  }
  std::vector<std::string> outputs;
  for (const onnx::ValueInfoProto &output : graph.output())
    outputs.push_back(output.name());
  llvm::StringSet<> read; // `scope.live` already has these names
  std::vector<const onnx::NodeProto *> nodes = findLiveNodes(graph.node(), outputs, read);
  if (std::string missing = describeUnsupported(nodes); !missing.empty())
    return choice.fail(missing);
  if (choice.failed() || failed(checkNames(graph.node(), tensors, source)) ||
      failed(run(nodes, scope, source)))
    return failure();
  for (unsigned i = 0; i < choice.getNumResults(); ++i) {
    results.push_back(scope.values.lookup(outputs[i]));
    if (choice.isUsed(i) && !results.back())
      return choice.fail("has the result '" + outputs[i] + "', which is not a tensor");
  }
  return success();
}

/// Fails if a call has an attribute that its function does not declare, or more inputs or outputs
/// than the function.
static LogicalResult checkCall(const onnx::NodeProto &node, const onnx::FunctionProto &function,
                               Location loc) {
  auto declares = [&](const std::string &name) {
    return is_contained(function.attribute(), name) ||
           any_of(function.attribute_proto(),
                  [&](const onnx::AttributeProto &attribute) { return attribute.name() == name; });
  };
  for (const onnx::AttributeProto &attribute : node.attribute())
    if (!declares(attribute.name()))
      return emitError(loc) << "'" << getOpName(node) << "' has the attribute '" << attribute.name()
                            << "', which its function in the model does not declare"
                            << describeNode(node) << "; export the model again";
  if (node.input_size() > function.input_size() || node.output_size() > function.output_size())
    return emitError(loc) << "'" << getOpName(node) << "' has "
                          << describeCount(node.input_size(), "input") << " and "
                          << describeCount(node.output_size(), "output")
                          << "; its function in the model has " << function.input_size() << " and "
                          << function.output_size() << describeNode(node)
                          << "; export the model again";
  return success();
}

LogicalResult OnnxGraphConverter::inlineFunction(const onnx::NodeProto &node,
                                                 const onnx::FunctionProto &function,
                                                 OnnxScope &scope, const SourceLocation &source) {
  Location loc = getLocation(source, b.getContext());
  if (depth >= kMaxDepth)
    return emitError(loc) << "function '" << function.name()
                          << "' calls itself, or nests its calls too deeply";
  llvm::StringSet<> parameters;
  for (const std::string &name : function.input())
    parameters.insert(name);
  if (failed(checkCall(node, function, loc)) ||
      failed(checkNames(function.node(), parameters, source)))
    return failure();
  OnnxScope inner;
  inner.opset = scope.opset;
  for (const onnx::OperatorSetIdProto &set : function.opset_import())
    if (isDefaultDomain(set.domain()))
      inner.opset = set.version();
  for (int i = 0; i < function.input_size() && i < node.input_size(); ++i) {
    inner.values[function.input(i)] = scope.values.lookup(node.input(i));
    if (auto it = scope.sequences.find(node.input(i)); it != scope.sequences.end())
      inner.sequences[function.input(i)] = it->second;
  }
  for (const onnx::AttributeProto &attribute : function.attribute_proto())
    inner.attributes[attribute.name()] = &attribute;
  OnnxNode call(scope, node, b, loc);
  for (const onnx::AttributeProto &attribute : node.attribute())
    inner.attributes[attribute.name()] = call.resolve(attribute);
  std::vector<const onnx::NodeProto *> nodes = findLiveNodes(function, inner.live);
  ++depth;
  LogicalResult result = run(nodes, inner, source);
  --depth;
  if (failed(result))
    return failure();
  for (int i = 0; i < function.output_size() && i < node.output_size(); ++i) {
    scope.values[node.output(i)] = inner.values.lookup(function.output(i));
    if (auto it = inner.sequences.find(function.output(i)); it != inner.sequences.end())
      scope.sequences[node.output(i)] = it->second;
  }
  return success();
}

} // namespace parashard::import
