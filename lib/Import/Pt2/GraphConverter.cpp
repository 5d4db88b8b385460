// Converts the nodes of a graph in order; values that were written in place are known by their
// newest value.
#include "lib/Import/Pt2/GraphConverter.h"
#include "lib/Import/Pt2/HostValue.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/FormatVariadic.h"
#include <map>

using namespace mlir;
using namespace llvm;

namespace parashard::import {
namespace {

/// Ops whose result shares memory with their first operand.
bool isView(const Node &node) {
  static constexpr StringLiteral views[] = {
      "view",    "slice",     "select",  "transpose", "t",      "permute",          "expand",
      "squeeze", "unsqueeze", "alias",   "narrow",    "split",  "split_with_sizes", "chunk",
      "unbind",  "detach",    "view_as", "expand_as", "reshape"};
  auto [space, rest] = StringRef(node.target).split('.');
  return space == "aten" && is_contained(views, rest.split('.').first);
}

/// The tensor that an in-place op writes, or a view looks at.
StringRef getFirstTensor(const Node &node) {
  for (const Argument &argument : node.inputs)
    if (argument.kind == Argument::Tensor)
      return argument.names[0];
  return "";
}

void forEachTensor(const Node &node, llvm::function_ref<void(StringRef)> visit) {
  for (const Argument &argument : node.inputs)
    if (argument.kind == Argument::Tensor || argument.kind == Argument::Tensors)
      for (const std::string &name : argument.names)
        if (!name.empty())
          visit(name);
}

/// Nodes without a tensor result only assert, or compute sizes that the export knows.
bool hasTensorResult(const Node &node) {
  return any_of(node.outputs, [](const std::string &name) { return !name.empty(); });
}

std::string describePlace(const Node &node) {
  std::string module = node.modulePath.empty() ? "the model itself" : node.modulePath;
  return node.file.empty() ? module : formatv("{0} ({1}:{2})", module, node.file, node.line).str();
}

llvm::StringSet<> getNames(ArrayRef<Argument> arguments) {
  llvm::StringSet<> names;
  for (const Argument &argument : arguments)
    for (const std::string &name : argument.names)
      if (!name.empty())
        names.insert(name);
  return names;
}

const Graph *getBody(const Node &node) {
  for (const Argument &argument : node.inputs)
    if (argument.kind == Argument::Graph)
      return argument.graph.get();
  return nullptr;
}

struct Missing {
  unsigned count = 0;
  std::string place;
};

void collectUnsupported(const Graph &graph, const llvm::StringSet<> &outputs,
                        const ConverterTable &table, std::map<std::string, Missing> &missing) {
  llvm::StringSet<> live = findLiveValues(graph, outputs);
  for (const Node &node : graph.nodes) {
    if (!hasTensorResult(node) ||
        none_of(node.outputs, [&](const std::string &name) { return live.contains(name); }))
      continue;
    if (isInlined(node)) {
      if (const Graph *body = getBody(node))
        collectUnsupported(*body, getNames(body->outputs), table, missing);
      continue;
    }
    if (findConverter(table, node))
      continue;
    Missing &entry = missing[node.target];
    if (entry.count++ == 0)
      entry.place = describePlace(node);
  }
}

} // namespace

llvm::StringSet<> findLiveValues(const Graph &graph, const llvm::StringSet<> &outputs) {
  llvm::StringSet<> live = outputs;
  for (const Node &node : reverse(graph.nodes)) {
    bool needed =
        any_of(node.outputs, [&](const std::string &name) { return live.contains(name); });
    if (node.isInPlace())
      needed |= live.contains(getFirstTensor(node));
    if (!needed)
      continue;
    for (const std::string &name : node.outputs)
      live.insert(name);
    forEachTensor(node, [&](StringRef name) { live.insert(name); });
  }
  return live;
}

Location getLocation(const Node &node, MLIRContext *context) {
  Location line = UnknownLoc::get(context);
  if (!node.file.empty())
    line = FileLineColLoc::get(context, node.file, node.line, 0);
  if (node.modulePath.empty())
    return line;
  return NameLoc::get(StringAttr::get(context, node.modulePath), line);
}

std::string describeUnsupported(const Graph &graph, const llvm::StringSet<> &outputs,
                                const ConverterTable &table) {
  std::map<std::string, Missing> missing;
  collectUnsupported(graph, outputs, table, missing);
  if (missing.empty())
    return "";
  std::string text = formatv("{0} op{1} of the model cannot be imported:", missing.size(),
                             missing.size() == 1 ? "" : "s");
  for (const auto &[name, entry] : missing)
    text += formatv("\n  {0}: {1} time{2}, first in {3}", name, entry.count,
                    entry.count == 1 ? "" : "s", entry.place);
  return text + "\nreplace them in the model, or export after run_decompositions()";
}

Expected<RankedTensorType> GraphConverter::getType(StringRef name) const {
  auto meta = graph.tensors.find(name);
  if (meta == graph.tensors.end())
    return createStringError("the export has no type for the value '" + name + "'");
  Type element = getElementType(meta->second.dtype, b.getContext());
  if (!element)
    return createStringError(
        "'" + name + "' has the dtype " + getDtypeName(meta->second.dtype) +
        ", which is not supported; use float32, float64, float16, bfloat16, bool or an integer of "
        "at most 64 bits");
  Expected<SmallVector<int64_t>> shape = sizes.evaluate(meta->second.sizes, graph);
  if (!shape)
    return shape.takeError();
  return RankedTensorType::get(*shape, element);
}

bool GraphConverter::readsUndefined(const Node &node) const {
  bool undefined = false;
  forEachTensor(node, [&](StringRef name) { undefined |= !lookup(name); });
  return undefined;
}

LogicalResult GraphConverter::run(const llvm::StringSet<> &liveOutputs) {
  llvm::StringSet<> live = findLiveValues(graph, liveOutputs);
  bool ok = true;
  for (const Node &node : graph.nodes)
    if (hasTensorResult(node) &&
        any_of(node.outputs, [&](const std::string &name) { return live.contains(name); }))
      ok &= succeeded(convert(node));
  return success(ok);
}

LogicalResult GraphConverter::convert(const Node &node) {
  Location loc = getLocation(node, b.getContext());
  // A value that is not there was reported where it failed, unless it is a result that no converter
  // gives.
  if (readsUndefined(node)) {
    forEachTensor(node, [&](StringRef name) {
      if (!lookup(name) && !failedValues.contains(name))
        emitError(loc) << "'" << node.target << "' reads '" << name
                       << "', a result that is only meant for a backward pass, in "
                       << describePlace(node);
    });
    for (const std::string &name : node.outputs)
      failedValues.insert(name);
    return failure();
  }
  if (isInlined(node)) {
    LogicalResult inlined = inlineGraph(node, loc);
    if (failed(inlined))
      for (const std::string &name : node.outputs)
        failedValues.insert(name);
    return inlined;
  }
  NodeConverter converter(*this, node, b, loc);
  ConverterFunction function = findConverter(table, node);
  LogicalResult result = checkInPlace(node, converter);
  if (succeeded(result))
    result = function(converter);
  if (failed(result) || converter.failed()) {
    for (const std::string &name : node.outputs)
      failedValues.insert(name);
    return emitError(loc) << "'" << node.target << "' " << converter.getFailure() << ", in "
                          << describePlace(node);
  }
  if (isView(node))
    for (const std::string &name : node.outputs)
      viewed[name] = getFirstTensor(node).str();
  if (node.isInPlace() && node.outputs.size() == 1)
    define(getFirstTensor(node), lookup(node.outputs[0]));
  return success();
}

/// A write in place is a new value of its operand's name; views of the old one must not be read
/// again.
LogicalResult GraphConverter::checkInPlace(const Node &node, NodeConverter &converter) {
  if (!node.isInPlace())
    return success();
  std::string written = getFirstTensor(node).str();
  if (viewed.contains(written))
    return converter.fail("writes in place through a view of another tensor, which is not "
                          "supported; write a new tensor");
  for (const Node *later = &node + 1; later != graph.nodes.data() + graph.nodes.size(); ++later) {
    bool stale = false;
    forEachTensor(*later, [&](StringRef name) {
      auto view = viewed.find(name);
      stale |= view != viewed.end() && view->second == written;
    });
    if (stale)
      return converter.fail(
          "writes in place into a tensor of which a view is read later, which is not supported; "
          "write a new tensor");
  }
  return success();
}

LogicalResult GraphConverter::inlineGraph(const Node &node, Location loc) {
  const Graph *body = getBody(node);
  if (!body)
    return emitError(loc) << "'" << node.target << "' has no body";
  // wrap_with_autocast(device, dtype, enabled, cache_enabled, body, ...): only a region that turns
  // it off.
  if (node.target == "higher_order.wrap_with_autocast" && node.inputs.size() > 2 &&
      node.inputs[2].kind == Argument::Bool && node.inputs[2].bools[0])
    return emitError(loc)
           << "the model turns on autocast in " << describePlace(node)
           << ", which is not supported; export without it and choose --precision when compiling";
  GraphConverter inner(*body, sizes, table, b);
  auto parameter = body->inputs.begin();
  for (const Argument &argument : node.inputs) {
    if (argument.kind != Argument::Tensor)
      continue;
    while (parameter != body->inputs.end() && parameter->kind != Argument::Tensor)
      ++parameter;
    if (parameter == body->inputs.end())
      return emitError(loc) << "'" << node.target << "' has more operands than its body has inputs";
    inner.define((parameter++)->names[0], lookup(argument.names[0]));
  }
  if (failed(inner.run(getNames(body->outputs))))
    return failure();
  SmallVector<std::string> results;
  for (const Argument &output : body->outputs)
    append_range(results, output.names);
  bool stopsGradient = node.target == "higher_order.wrap_with_set_grad_enabled" &&
                       !node.inputs.empty() && node.inputs[0].kind == Argument::Bool &&
                       !node.inputs[0].bools[0];
  for (auto [name, result] : zip(node.outputs, results)) {
    Value value = inner.lookup(result);
    if (stopsGradient && value && isFloat(value) && dependsOnTrained(value))
      return emitError(loc) << "a no_grad region depends on trained parameters in "
                            << describePlace(node) << "; stopping their gradient is not supported";
    define(name, value);
  }
  return success();
}

} // namespace parashard::import
