// Reads the `pkg.torch.*` metadata of an ONNX file.
#include "lib/Import/Onnx/Metadata.h"

using namespace llvm;

namespace parashard::import {

/// Returns the strings of a Python list such as "['', 'blocks.0', 'linear']".
static SmallVector<StringRef> parseNames(StringRef list) {
  SmallVector<StringRef> names;
  while (!list.empty()) {
    size_t open = list.find_first_of("'\"");
    if (open == StringRef::npos)
      break;
    size_t close = list.find(list[open], open + 1);
    if (close == StringRef::npos)
      break;
    names.push_back(list.slice(open + 1, close));
    list = list.drop_front(close + 1);
  }
  return names;
}

SourceLocation getSourceLocation(const onnx::NodeProto &node, const SourceLocation &caller) {
  SourceLocation source;
  // Example: ['', 'blocks', 'blocks.0', 'linear']. The last entry is the node's own name.
  SmallVector<StringRef> scopes = parseNames(getMetadata(node, "pkg.torch.onnx.name_scopes"));
  if (scopes.size() >= 2)
    source.modulePath = scopes[scopes.size() - 2].str();
  readStackTrace(getMetadata(node, "pkg.torch.onnx.stack_trace"), source);
  if (source.file.empty() && source.modulePath.empty() && scopes.empty())
    return caller;
  if (source.file.empty())
    std::tie(source.file, source.line) = std::tie(caller.file, caller.line);
  return source;
}

/// Returns the torch call that a node was exported from. Example:
/// "... call_function[target=torch.ops.aten.cross_entropy_loss.default](args = (%logits, %labels,
/// None, 1, -100, 0.1), kwargs = {})".
static StringRef getCall(const onnx::NodeProto &node) {
  return getMetadata(node, "pkg.torch.onnx.fx_node");
}

bool isFusedBatchNorm(const onnx::NodeProto &node) {
  return is_contained({"Conv", "ConvTranspose", "Gemm"}, node.op_type()) &&
         getCall(node).split("target=").second.split('(').first.contains("batch_norm");
}

/// Returns an argument of `op` by position or name, if the node was exported from this ATen op.
/// Else returns "".
static StringRef getArgument(const onnx::NodeProto &node, StringRef op, unsigned position,
                             StringRef name) {
  StringRef call = getCall(node);
  if (!call.contains(("torch.ops.aten." + op + ".").str()))
    return "";
  auto [byPosition, byName] = call.split("args = (").second.split("), kwargs");
  SmallVector<StringRef> arguments;
  byPosition.split(arguments, ", ");
  StringRef argument =
      arguments.size() > position ? arguments[position] : byName.split((name + ": ").str()).second;
  return argument.take_until([](char c) { return c == ',' || c == '}'; }).trim();
}

double getLabelSmoothing(const onnx::NodeProto &node) {
  double smoothing = 0;
  StringRef text = getArgument(node, "cross_entropy_loss", 5, "label_smoothing");
  return text.getAsDouble(smoothing) ? 0 : smoothing;
}

std::optional<int64_t> getPaddingIndex(const onnx::NodeProto &node) {
  int64_t index = -1;
  bool isGiven = !getArgument(node, "embedding", 2, "padding_idx").getAsInteger(10, index);
  return isGiven && index >= 0 ? std::optional(index) : std::nullopt;
}

/// Reads a line such as "p_head_weight: PARAMETER target='head.weight'" or "b_mask: BUFFER
/// target='mask' persistent=False".
static void readSignatureLine(StringRef line, Signature &signature) {
  StringRef rest = line.split(": ").second;
  auto [kind, target] = rest.split(" target='");
  if (target.empty())
    return;
  StringRef name = target.split('\'').first;
  // The first line of a name determines its kind. Lines of inputs come first. A later line of an
  // output may repeat the name of the buffer that the output updates.
  signature.kinds.try_emplace(name, kind.trim().str());
  if (target.ends_with("persistent=False"))
    signature.transient.insert(name);
  if (kind.trim() == "PARAMETER")
    signature.parameters.push_back(name.str());
}

/// Sets the kind of running statistics to buffer, for files whose metadata does not record kinds.
static void addStatistics(const onnx::GraphProto &graph, Signature &signature) {
  for (const onnx::NodeProto &node : graph.node())
    if (node.op_type() == "BatchNormalization" && node.input_size() == 5)
      for (int input : {3, 4})
        signature.kinds.try_emplace(node.input(input), "BUFFER");
}

/// Sets the kind of the sizes and scales of Resize nodes to constant. Scales are floats, but not
/// parameters.
static void addFactors(const onnx::GraphProto &graph, Signature &signature) {
  for (const onnx::NodeProto &node : graph.node())
    if (node.op_type() == "Resize")
      for (int input = 1; input < node.input_size(); ++input)
        signature.kinds.try_emplace(node.input(input), "CONSTANT");
}

Signature readSignature(const onnx::GraphProto &graph) {
  Signature signature;
  StringRef text = getMetadata(graph, "pkg.torch.export.ExportedProgram.graph_signature");
  signature.isKnown = !text.empty();
  SmallVector<StringRef> lines;
  text.split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (StringRef line : lines)
    readSignatureLine(line, signature);
  for (const onnx::ValueInfoProto &value : graph.value_info()) {
    StringRef kind = getMetadata(value, "pkg.torch.export.graph_signature.InputSpec.kind");
    if (kind.empty())
      continue;
    signature.isKnown = true;
    signature.kinds.try_emplace(value.name(), kind.str());
    if (getMetadata(value, "pkg.torch.export.graph_signature.InputSpec.persistent") == "False")
      signature.transient.insert(value.name());
  }
  if (!signature.isKnown) {
    addStatistics(graph, signature);
    addFactors(graph, signature);
  }
  return signature;
}

} // namespace parashard::import
