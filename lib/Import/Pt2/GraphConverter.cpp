// Converts the nodes of a graph in order, and tracks in-place writes.
#include "lib/Import/Pt2/GraphConverter.h"
#include "lib/Import/HostValue.h"
#include "lib/Import/MissingOps.h"
#include "lib/Import/Shapes.h"
#include "mlir/IR/Diagnostics.h"
#include "parashard/Import.h"
#include "llvm/Support/FormatVariadic.h"
#include <map>

using namespace mlir;
using namespace llvm;

namespace parashard::import {
namespace {

void forEachTensor(const Node &node, llvm::function_ref<void(StringRef)> visit) {
  for (const Argument &argument : node.inputs)
    if (argument.kind == Argument::Tensor || argument.kind == Argument::Tensors)
      for (const std::string &name : argument.names)
        if (!name.empty())
          visit(name);
}

llvm::StringSet<> getNames(ArrayRef<Argument> arguments) {
  llvm::StringSet<> names;
  for (const Argument &argument : arguments)
    for (const std::string &name : argument.names)
      if (!name.empty())
        names.insert(name);
  return names;
}

/// Returns true for a region of torch.set_grad_enabled(enabled).
bool setsGradients(const Node &node, bool enabled) {
  return node.target == "higher_order.wrap_with_set_grad_enabled" && !node.inputs.empty() &&
         node.inputs[0].kind == Argument::Bool && node.inputs[0].bools[0] == enabled;
}
bool stopsGradients(const Node &node) { return setsGradients(node, false); }
bool enablesGradients(const Node &node) { return setsGradients(node, true); }

bool isTensor(const Argument &argument) { return argument.kind == Argument::Tensor; }

void collectUnsupported(const Graph &graph, const llvm::StringSet<> &outputs,
                        const ConverterTable &table, const SizeBinding &sizes,
                        MissingOps &missing) {
  llvm::BitVector live = findLiveNodes(graph, outputs, Views(graph, sizes));
  for (auto [i, node] : enumerate(graph.nodes)) {
    if (!live[i])
      continue;
    if (const Graph *body = getBody(node)) {
      llvm::StringSet<> left = getNames(body->outputs);
      // In-place writes of the body to its operands are also outputs.
      for (auto [outer, name] : getBodyOperands(node))
        left.insert(name);
      collectUnsupported(*body, left, table, sizes, missing);
      continue;
    }
    if (!isInlined(node) && (!findConverter(table, node) || hasUnknownWrites(node)))
      missing.add(node.target, node.source);
  }
}

} // namespace

llvm::BitVector findLiveNodes(const Graph &graph, const llvm::StringSet<> &outputs,
                              const Views &views) {
  llvm::StringSet<> live, liveMemory;
  auto read = [&](StringRef name) {
    live.insert(name);
    liveMemory.insert(views.getRoot(name));
  };
  for (const auto &output : outputs)
    read(output.first());
  llvm::BitVector needed(graph.nodes.size());
  for (int i = int(graph.nodes.size()) - 1; i >= 0; --i) {
    const Node &node = graph.nodes[i];
    auto isLive = [&](StringRef name) { return live.contains(name); };
    auto isRead = [&](StringRef name) { return liveMemory.contains(views.getRoot(name)); };
    if (any_of(node.outputs, isLive) || any_of(views.getWritten(node), isRead)) {
      needed.set(i);
      forEachTensor(node, read);
    }
  }
  return needed;
}

std::string describeUnsupported(const Graph &graph, const llvm::StringSet<> &outputs,
                                const ConverterTable &table, const SizeBinding &sizes) {
  MissingOps missing;
  collectUnsupported(graph, outputs, table, sizes, missing);
  return missing.describe("replace them in the model, or export after run_decompositions()");
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
  if (!isPossibleShape(*shape))
    return createStringError("'" + name + "' has " + kImpossibleShape);
  return RankedTensorType::get(*shape, element);
}

bool GraphConverter::readsUndefined(const Node &node) const {
  bool undefined = false;
  forEachTensor(node, [&](StringRef name) { undefined |= !lookup(name); });
  return undefined;
}

LogicalResult GraphConverter::run(const llvm::StringSet<> &liveOutputs) {
  llvm::BitVector live = findLiveNodes(graph, liveOutputs, views);
  bool ok = true;
  for (unsigned i : live.set_bits()) {
    const Node &node = graph.nodes[i];
    if (succeeded(convert(node)))
      continue;
    ok = false;
    failedValues.insert_range(node.outputs);
  }
  for (const auto &output : liveOutputs)
    ok = ok && succeeded(refresh(output.first(), b.getInsertionBlock()->getParentOp()->getLoc()));
  return success(ok);
}

bool GraphConverter::definesResult(StringRef name) const {
  return any_of(graph.nodes, [&](const Node &node) { return is_contained(node.outputs, name); });
}

LogicalResult GraphConverter::convert(const Node &node) {
  Location loc = getLocation(node.source, b.getContext());
  // Reports two kinds of undefined values: results of no node, and results that the converter of
  // their node does not define. Skips results of failed nodes, whose errors are already reported.
  if (readsUndefined(node)) {
    forEachTensor(node, [&](StringRef name) {
      if (!lookup(name) && !failedValues.contains(name))
        emitError(loc) << "'" << node.target << "' in " << describeLocation(node.source)
                       << " reads '" << name << "', "
                       << (definesResult(name)
                               ? "an auxiliary result that only the backward of its op may use; "
                                 "remove this use from the model"
                               : "which no earlier node defines; export the model again");
    });
    return failure();
  }
  if (failed(refreshOperands(node, loc)))
    return failure();
  if (isInlined(node))
    return inlineGraph(node, loc);
  NodeConverter converter(*this, node, b, loc);
  ConverterFunction function = findConverter(table, node);
  LogicalResult result = function(converter);
  for (const std::string &name : node.outputs)
    if (Value value = lookup(name); value && !isPossibleShape(getShape(value)))
      result = converter.fail("has a result with " + kImpossibleShape);
  if (succeeded(result) && !converter.failed())
    result = converter.checkRead();
  if (failed(result) || converter.failed())
    return emitError(loc) << "'" << node.target << "' " << converter.getFailure() << ", in "
                          << describeLocation(node.source);
  if (node.isInPlace() && node.outputs.empty())
    return emitError(loc) << "'" << node.target << "' has no result, in "
                          << describeLocation(node.source);
  if (node.isInPlace() && failed(write(node.getInPlace(), lookup(node.outputs[0]), loc)))
    return failure();
  markSumOfBatch(node, loc);
  markFresh(node);
  return success();
}

/// Returns true for reductions whose result grows with the size of a reduced dim (sums, not means).
static bool addsUp(StringRef target) {
  static constexpr StringLiteral ops[] = {
      "sum",       "prod",          "norm",   "linalg_vector_norm",
      "logsumexp", "count_nonzero", "einsum", "mm",
      "bmm",       "matmul",        "mv",     "dot"};
  return target.consume_front("aten.") && is_contained(ops, target.split('.').first);
}

static bool dependsOnArguments(Value value) {
  SmallPtrSet<Operation *, 16> seen;
  SmallVector<Value> todo{value};
  while (!todo.empty()) {
    Operation *op = todo.pop_back_val().getDefiningOp();
    if (!op)
      return true;
    if (seen.insert(op).second)
      todo.append(op->operand_begin(), op->operand_end());
  }
  return false;
}

void GraphConverter::markSumOfBatch(const Node &node, Location loc) {
  auto hasBatch = [&](StringRef name) {
    auto meta = graph.tensors.find(name.str());
    return meta != graph.tensors.end() && any_of(meta->second.sizes, [&](const Size &size) {
             return sizes.dependsOnBatch(size, graph);
           });
  };
  if (!addsUp(node.target) || node.outputs.size() != 1 || hasBatch(node.outputs[0]))
    return;
  bool reads = false, readsInputs = false;
  forEachTensor(node, [&](StringRef name) {
    bool has = hasBatch(name);
    reads |= has;
    readsInputs |= has && dependsOnArguments(lookup(name));
  });
  Value sum = lookup(node.outputs[0]);
  if (!reads || readsInputs || !sum)
    return;
  // Replaces a sum of constants by a number, so that a loss divided by this sum can be recognized
  // as a mean.
  auto divides = [&](const Node &user) {
    bool isRead = false;
    forEachTensor(user, [&](StringRef name) { isRead |= name == node.outputs[0]; });
    return !isRead || StringRef(user.target).starts_with("aten.div.");
  };
  std::optional<ps::Tensor> number = evaluateOnHost(sum);
  if (number && number->size() == 1 && all_of(graph.nodes, divides)) {
    TensorBuilder builder(b, loc);
    return define(node.outputs[0], buildHostConstant(builder, *number));
  }
  markBatchNumber(loc);
}

void GraphConverter::markBatchNumber(Location loc) {
  auto module = b.getInsertionBlock()->getParentOp()->getParentOfType<ModuleOp>();
  if (!module->hasAttr(kBatchNumberMark))
    module->setAttr(kBatchNumberMark, cast<Attribute>(loc));
}

void GraphConverter::markFresh(const Node &node) {
  for (const std::string &name : node.outputs)
    if (!name.empty())
      seen[name] = writes.lookup(views.getRoot(name));
}

LogicalResult GraphConverter::refreshOperands(const Node &node, Location loc) {
  bool ok = true;
  forEachTensor(node, [&](StringRef name) { ok = ok && succeeded(refresh(name, loc)); });
  return success(ok);
}

LogicalResult GraphConverter::refresh(StringRef name, Location reader) {
  const View *view = views.find(name);
  if (!view || seen.lookup(name) == writes.lookup(views.getRoot(name)))
    return success();
  if (!view->isCertain)
    return emitError(reader)
           << "'" << name << "' of '" << view->node->target
           << "' may share memory with a tensor that was written in place later; "
              "whether they share memory is known only at run time; write to a new tensor, or add "
              ".clone()";
  if (failed(refresh(view->base, reader)))
    return failure();
  if (Value old = lookup(name); view->isDetached() && old && dependsOnTrained(old))
    return emitError(reader)
           << "the detach() '" << name
           << "' is written in place with a value that requires grad, and its base is written "
              "later; writing both in place is not supported; add .clone() to the detach()";
  if (view->node->isInPlace()) {
    define(name, lookup(view->base));
  } else {
    NodeConverter converter(*this, *view->node, b, getLocation(view->node->source, b.getContext()));
    if (failed(findConverter(table, *view->node)(converter)))
      return emitError(reader) << "'" << view->node->target << "' " << converter.getFailure();
  }
  markFresh(*view->node);
  return success();
}

LogicalResult GraphConverter::write(StringRef name, Value value, Location loc) {
  ++writes[views.getRoot(name)];
  while (true) {
    define(name, value);
    seen[name] = writes.lookup(views.getRoot(name));
    const View *view = views.find(name);
    if (!view)
      return success();
    if (!view->isCertain)
      return emitError(loc)
             << "writes in place to '" << name << "' of '" << view->node->target
             << "', which may or may not share memory with '" << view->base
             << "'; this is known only at run time; write to a new tensor, or add .clone()";
    if (view->isDetached()) {
      if (failed(checkUntrackedWrite(view->base, "through detach()", loc)))
        return failure();
      // The written value gets gradients through the detached tensor, but not through its base.
      value = stopGradient(b, loc, value);
    }
    NodeConverter converter(*this, *view->node, b, loc);
    value = writeThroughView(converter, view->result, lookup(view->base), value);
    if (!value || converter.failed())
      return emitError(loc) << "writes in place through '" << view->node->target << "', which "
                            << converter.getFailure();
    name = view->base;
  }
}

LogicalResult GraphConverter::inlineGraph(const Node &node, Location loc) {
  const Graph *body = getBody(node);
  if (!body)
    return emitError(loc) << "'" << node.target << "' has no body";
  // In wrap_with_autocast(device, dtype, enabled, cache_enabled, body, ...), only enabled=False is
  // supported.
  if (node.target == "higher_order.wrap_with_autocast" && node.inputs.size() > 2 &&
      node.inputs[2].kind == Argument::Bool && node.inputs[2].bools[0])
    return emitError(loc)
           << "the model turns on autocast in " << describeLocation(node.source)
           << ", which is not supported; export without autocast and choose --precision when "
              "compiling";
  GraphConverter inner(*body, sizes, table, b);
  if (count_if(node.inputs, isTensor) > count_if(body->inputs, isTensor))
    return emitError(loc) << "'" << node.target << "' has more operands than its body has inputs";
  llvm::StringSet<> outputs = getNames(body->outputs);
  SmallVector<std::pair<StringRef, StringRef>> written; // outer name, name in the body
  for (auto [outer, name] : getBodyOperands(node)) {
    inner.define(name, lookup(outer));
    if (inner.views.isWritten(name)) {
      written.push_back({outer, name});
      outputs.insert(name);
    }
  }
  if (failed(inner.run(outputs)))
    return failure();
  SmallVector<std::string> results;
  for (const Argument &output : body->outputs)
    append_range(results, output.names);
  bool stops = stopsGradients(node);
  if (stops && any_of(body->nodes, enablesGradients))
    return emitError(loc) << "the model enables gradients inside a no_grad region in "
                          << describeLocation(node.source)
                          << ", which is not supported; end the no_grad region first";
  // An input that the no_grad region returns unchanged keeps its gradient.
  llvm::StringSet<> inputs = getNames(body->inputs);
  auto leave = [&](StringRef name) {
    Value value = inner.lookup(name);
    return stops && value && !inputs.contains(name) ? stopGradient(b, loc, value) : value;
  };
  for (auto [name, result] : zip(node.outputs, results))
    define(name, leave(result));
  for (auto [outer, name] : written) {
    // Reports at the writing node, since the region has no location in the model.
    Location writer = getLocation(inner.views.findWriter(name)->source, b.getContext());
    if (stops && failed(checkUntrackedWrite(outer, "in a no_grad region", writer)))
      return failure();
    Value value = inner.lookup(name);
    if (failed(write(outer, stops ? stopGradient(b, loc, value) : value, loc)))
      return failure();
  }
  markFresh(node);
  return success();
}

LogicalResult GraphConverter::checkUntrackedWrite(StringRef name, const Twine &how, Location loc) {
  for (const View *view = nullptr;; name = view->base) {
    if (Value old = lookup(name); old && isFloat(old) && dependsOnTrained(old))
      return emitError(loc) << "writes in place " << how << " to '" << name
                            << "', a value that requires grad, which is not supported; "
                               "write to a clone() instead";
    view = views.find(name);
    if (!view)
      return success();
  }
}

} // namespace parashard::import
