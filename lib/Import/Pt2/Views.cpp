// Finds views, and computes the base of a view after a write through the view.
#include "lib/Import/Pt2/Views.h"
#include "lib/Import/BuildOps.h"
#include "lib/Import/Shapes.h"
#include "shared/Counts.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace llvm;

namespace parashard::import {
namespace {

/// How the result of an op shares memory with its operand.
enum class ViewKind {
  None,
  Same,    ///< the same elements in the same order
  Reshape, ///< the same elements if the operand is contiguous; otherwise PyTorch may copy
  Copy,    ///< the operand itself if it already has the requested type and layout; else a copy
  Permute,
  Range,
  Repeat,
  Other, ///< may share memory in a way that is not tracked
};

StringRef getOp(const Node &node) {
  auto [space, rest] = StringRef(node.target).split('.');
  return space == "aten" ? rest.split('.').first : StringRef();
}

ViewKind getKind(const Node &node) {
  return llvm::StringSwitch<ViewKind>(getOp(node))
      .Cases({"view", "view_as", "unflatten", "unsqueeze", "squeeze", "alias", "detach"},
             ViewKind::Same)
      .Cases({"reshape", "flatten"}, ViewKind::Reshape)
      .Cases({"contiguous", "to", "type_as", "dropout"}, ViewKind::Copy)
      .Cases({"transpose", "t", "numpy_T", "mT", "mH", "matrix_H", "adjoint", "permute"},
             ViewKind::Permute)
      .Cases({"slice", "narrow", "select", "split", "split_with_sizes", "chunk", "unbind"},
             ViewKind::Range)
      .Cases({"expand", "expand_as", "broadcast_to"}, ViewKind::Repeat)
      .Cases({"as_strided",
              "atleast_1d",
              "atleast_2d",
              "atleast_3d",
              "broadcast_tensors",
              "conj",
              "diagonal",
              "dsplit",
              "einsum",
              "hsplit",
              "imag",
              "linalg_diagonal",
              "meshgrid",
              "moveaxis",
              "movedim",
              "positive",
              "ravel",
              "real",
              "reshape_as",
              "resolve_conj",
              "resolve_neg",
              "swapaxes",
              "swapdims",
              "tensor_split",
              "unfold",
              "unsafe_chunk",
              "unsafe_split",
              "unsafe_split_with_sizes",
              "view_as_complex",
              "view_as_real",
              "vsplit",
              "_conj",
              "_reshape_alias",
              "_unsafe_view"},
             ViewKind::Other)
      .Default(ViewKind::None);
}

/// Returns true if an einsum keeps all labels of its operand, so that its result may be a view.
/// Examples: "ii->i", "ij->ji".
bool keepsAllLetters(const Node &node) {
  const Argument *equation = node.find("equation");
  if (!equation || equation->names.empty())
    return true;
  auto [operand, result] = StringRef(equation->names[0]).split("->");
  return all_of(operand, [&](char letter) { return result.contains(letter) || letter == ' '; });
}

/// Returns the operand that result `result` of an op may share memory with, or "".
StringRef getBase(const Node &node, unsigned result) {
  for (const Argument &argument : node.inputs) {
    if (argument.kind == Argument::Tensor)
      return argument.names[0];
    if (argument.kind != Argument::Tensors)
      continue;
    bool isEinsum = getOp(node) == "einsum";
    if (isEinsum && (argument.names.size() != 1 || !keepsAllLetters(node)))
      return "";
    return result < argument.names.size() ? StringRef(argument.names[result]) : "";
  }
  return "";
}

bool getFlag(const Node &node, StringRef name) {
  const Argument *argument = node.find(name);
  return argument && argument->kind == Argument::Bool && argument->bools[0];
}

bool hasArgument(const Node &node, StringRef name) {
  const Argument *argument = node.find(name);
  return argument && argument->kind != Argument::None;
}

/// Returns true for batch norms that write their running statistics (in training). Unlike the names
/// of other in-place ops, their names do not end with '_'.
bool movesStatistics(const Node &node) {
  return llvm::is_contained({"batch_norm", "native_batch_norm", "_native_batch_norm_legit"},
                            getOp(node)) &&
         getFlag(node, "training");
}

SmallVector<StringRef> getStatistics(const Node &node) {
  SmallVector<StringRef> names;
  for (StringRef name : {"running_mean", "running_var"})
    if (const Argument *argument = node.find(name); argument && argument->kind == Argument::Tensor)
      names.push_back(argument->names[0]);
  return names;
}

SmallVector<StringRef> getTensors(const Node &node) {
  SmallVector<StringRef> names;
  for (const Argument &argument : node.inputs)
    if (argument.kind == Argument::Tensor || argument.kind == Argument::Tensors)
      append_range(names,
                   make_filter_range(argument.names, [](StringRef n) { return !n.empty(); }));
  return names;
}

} // namespace

bool hasUnknownWrites(const Node &node) {
  if (getBody(node) || node.isInPlace())
    return false;
  StringRef target = node.target, op = getOp(node), overload = target.rsplit('.').second;
  if (!target.starts_with("aten.") && !target.starts_with("prims."))
    return !op.contains("print");
  bool isNamedInPlace = op.ends_with("_") && !op.ends_with("__");
  bool isOutVariant =
      overload == "out" || overload.ends_with("_out") ||
      is_contained({"values", "values_stable", "dim_values", "dim_max", "dim_min"}, overload);
  bool isCheck = op.contains("assert") || op.starts_with("sym_constrain_range");
  return isNamedInPlace || isOutVariant || (!node.hasResults && !isCheck);
}

StringRef getFirstTensor(const Node &node) {
  for (const Argument &argument : node.inputs)
    if (argument.kind == Argument::Tensor)
      return argument.names[0];
  return "";
}

const Graph *getBody(const Node &node) {
  if (!isInlined(node))
    return nullptr;
  for (const Argument &argument : node.inputs)
    if (argument.kind == Argument::Graph)
      return argument.graph.get();
  return nullptr;
}

SmallVector<std::pair<StringRef, StringRef>> getBodyOperands(const Node &node) {
  SmallVector<std::pair<StringRef, StringRef>> operands;
  const std::vector<Argument> &parameters = getBody(node)->inputs;
  auto isTensor = [](const Argument &argument) { return argument.kind == Argument::Tensor; };
  for (auto [argument, parameter] :
       zip(make_filter_range(node.inputs, isTensor), make_filter_range(parameters, isTensor)))
    operands.push_back({argument.names[0], parameter.names[0]});
  return operands;
}

//===----------------------------------------------------------------------===//
// Finding views
//===----------------------------------------------------------------------===//

Views::Views(const Graph &graph, const SizeBinding &sizes) : graph(graph), sizes(sizes) {
  for (const Node &node : graph.nodes) {
    if (getBody(node))
      addViewsOfBody(node);
    else
      addViews(node);
    for (StringRef name : getWritten(node))
      written.insert(getRoot(name));
  }
}

const View *Views::find(StringRef name) const {
  auto it = views.find(name);
  return it == views.end() ? nullptr : &it->second;
}

StringRef Views::getRoot(StringRef name) const {
  while (const View *view = find(name))
    name = view->base;
  return name;
}

SmallVector<StringRef> Views::getWritten(const Node &node) const {
  if (node.isInPlace())
    return {node.getInPlace()};
  if (movesStatistics(node))
    return getStatistics(node);
  if (hasUnknownWrites(node))
    return getTensors(node);
  return writtenByBody.lookup(&node);
}

const Node *Views::findWriter(StringRef name) const {
  StringRef root = getRoot(name);
  for (const Node &node : graph.nodes)
    if (any_of(getWritten(node), [&](StringRef other) { return getRoot(other) == root; }))
      return &node;
  return nullptr;
}

bool Views::isContiguous(StringRef name) const {
  auto meta = graph.tensors.find(name);
  if (meta == graph.tensors.end())
    return false;
  auto shape = sizes.evaluate(meta->second.sizes, graph);
  auto strides = sizes.evaluate(meta->second.strides, graph);
  bool known = bool(shape) && bool(strides);
  bool contiguous = known;
  int64_t expected = 1;
  known = known && isPossibleShape(*shape) && strides->size() == shape->size();
  contiguous &= known;
  for (int64_t dim = known ? int64_t(shape->size()) - 1 : -1; dim >= 0; --dim) {
    contiguous &= (*shape)[dim] == 1 || (*strides)[dim] == expected;
    expected *= std::max<int64_t>((*shape)[dim], 1);
  }
  consumeError(shape.takeError());
  consumeError(strides.takeError());
  return contiguous;
}

bool Views::hasSameDtype(const Node &node, StringRef base) const {
  auto from = graph.tensors.find(base), to = graph.tensors.find(node.outputs[0]);
  return from != graph.tensors.end() && to != graph.tensors.end() &&
         from->second.dtype == to->second.dtype;
}

void Views::addViews(const Node &node) {
  StringRef base = node.isInPlace() ? node.getInPlace() : getFirstTensor(node);
  ViewKind kind = node.isInPlace() ? ViewKind::Same : getKind(node);
  if (kind == ViewKind::Other)
    for (auto [i, name] : enumerate(node.outputs))
      if (StringRef other = getBase(node, i); !name.empty() && !other.empty())
        add(name, {other.str(), &node, unsigned(i), /*isCertain=*/false});
  if (kind == ViewKind::None || kind == ViewKind::Other || base.empty() || node.outputs.empty())
    return;
  bool isCertain = true;
  if (kind == ViewKind::Reshape)
    isCertain = isContiguous(base);
  if (kind == ViewKind::Copy) {
    StringRef op = getOp(node);
    const Argument *p = node.find("p");
    bool drops = op == "dropout" && getFlag(node, "train") &&
                 !(p && p->kind == Argument::Float && p->floats[0] == 0);
    if (drops || getFlag(node, "copy") || !hasSameDtype(node, base) ||
        (op == "contiguous" && !isContiguous(base) && !hasArgument(node, "memory_format")))
      return;
    isCertain = !hasArgument(node, "memory_format");
  }
  for (auto [i, name] : enumerate(node.outputs))
    if (!name.empty())
      add(name, {base.str(), &node, unsigned(i), isCertain});
}

void Views::add(StringRef name, View view) {
  StringRef base = view.base;
  while (const View *next = base == name ? nullptr : find(base))
    base = next->base;
  if (base != name) // a damaged graph may define a value as a view of itself
    views[name] = std::move(view);
}

/// Adds a view for each result of a body that is an operand of the body, or a view of an operand.
/// Also records the operands that the body writes.
void Views::addViewsOfBody(const Node &node) {
  const Graph &body = *getBody(node);
  Views inner(body, sizes);
  StringMap<StringRef> operands;
  for (auto [outer, name] : getBodyOperands(node)) {
    operands[name] = outer;
    if (inner.isWritten(name))
      writtenByBody[&node].push_back(outer);
  }
  SmallVector<StringRef> results;
  for (const Argument &output : body.outputs)
    append_range(results, output.names);
  for (auto [i, name] : enumerate(node.outputs))
    if (i < results.size() && !name.empty())
      if (auto it = operands.find(inner.getRoot(results[i])); it != operands.end())
        add(name, {it->second.str(), &node, unsigned(i), false});
}

//===----------------------------------------------------------------------===//
// Ranges
//===----------------------------------------------------------------------===//

ViewRange getViewRange(NodeConverter &n, unsigned result) {
  Value x = n.tensor("self");
  StringRef op = getOp(n.node);
  op.consume_back("_scatter");
  int64_t rank = getRank(x);
  bool hasDefaultDim = op != "select" && op != "narrow";
  ViewRange range;
  int64_t dim = hasDefaultDim ? n.integer("dim", 0) : n.integer("dim");
  range.dim = wrapDim(dim, rank);
  if (n.failed() || range.dim < 0 || range.dim >= rank) {
    (void)n.fail("has no dim " + Twine(dim));
    return {};
  }
  int64_t size = getShape(x)[range.dim];
  auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size); };
  if (op == "slice") {
    range.start = clamp(n.integer("start", 0));
    range.limit = std::max(range.start, clamp(n.integer("end", size)));
    range.step = n.integer("step", 1);
  } else if (op == "select") {
    int64_t index = n.integer("index");
    range.start = index < 0 ? index + size : std::min(index, size);
    range.limit = range.start + 1;
  } else if (op == "narrow") {
    int64_t start = n.integer("start");
    range.start = start < 0 ? start + size : std::min(start, size + 1);
    range.limit = range.start + std::clamp<int64_t>(n.integer("length"), -1, size + 1);
  } else if (op == "unbind") {
    range.start = result;
    range.limit = result + 1;
  } else { // split, split_with_sizes, chunk: the result types have the sizes
    for (unsigned i = 0; i <= result; ++i) {
      if (!n.isUsed(i)) {
        (void)n.fail("has a part without a name, which is not supported");
        return range;
      }
      RankedTensorType part = n.getResultType(i);
      if (part.getRank() != rank) {
        (void)n.fail("has a part " + debugString(part) + " of a tensor with " +
                     describeCount(rank, "dim"));
        return range;
      }
      range.start = range.limit;
      range.limit += part.getDimSize(range.dim);
    }
  }
  return range;
}

//===----------------------------------------------------------------------===//
// Writing through views
//===----------------------------------------------------------------------===//

Value writeRange(NodeConverter &n, unsigned result, Value base, Value part) {
  ViewRange range = getViewRange(n, result);
  if (n.failed())
    return {};
  SmallVector<int64_t> shape(getShape(base)), starts(shape.size(), 0), strides(shape.size(), 1);
  if (range.start < 0 || range.start > range.limit || range.limit > shape[range.dim] ||
      range.step < 1) {
    (void)n.fail("has a range that is out of bounds for " + debugString(base.getType()));
    return {};
  }
  shape[range.dim] = divideCeil(range.limit - range.start, range.step);
  starts[range.dim] = range.start;
  strides[range.dim] = range.step;
  return writePart(n, base, n.reshape(part, shape), starts, strides);
}

namespace {

Value writePermuted(NodeConverter &n, Value part) {
  int64_t rank = getRank(part);
  StringRef op = getOp(n.node);
  if (op == "transpose")
    return n.swapDims(part, n.integer("dim0"), n.integer("dim1"));
  if (op == "mT" || op == "mH" || op == "matrix_H" || op == "adjoint")
    return rank < 2 ? part : n.swapDims(part, -2, -1);
  if (op != "permute")
    return n.transpose(part, to_vector(llvm::reverse(seq<int64_t>(0, rank))));
  SmallVector<int64_t> inverse(rank), dims = wrapDims(n.integers("dims"), rank);
  for (auto [i, dim] : enumerate(dims)) {
    if (int64_t(dims.size()) != rank || dim < 0 || dim >= rank) {
      (void)n.fail("has dims that are not a permutation of the dims of " +
                   debugString(part.getType()));
      return {};
    }
    inverse[dim] = i;
  }
  return n.transpose(part, inverse);
}

} // namespace

Value writeThroughView(NodeConverter &n, unsigned result, Value base, Value part) {
  switch (n.node.isInPlace() ? ViewKind::Same : getKind(n.node)) {
  case ViewKind::Same:
  case ViewKind::Reshape:
  case ViewKind::Copy:
    return n.reshape(part, getShape(base));
  case ViewKind::Permute:
    return writePermuted(n, part);
  case ViewKind::Range:
    return writeRange(n, result, base, part);
  case ViewKind::Repeat:
  case ViewKind::Other:
  case ViewKind::None:
    break;
  }
  (void)n.fail("is a view that cannot be written in place; write a new tensor");
  return {};
}

} // namespace parashard::import
