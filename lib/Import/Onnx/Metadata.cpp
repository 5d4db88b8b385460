// Reads `pkg.torch.*` metadata.
#include "lib/Import/Onnx/Metadata.h"

using namespace llvm;

namespace parashard::import {

/// The strings of a Python list: "['', 'blocks.0', 'linear']".
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

Place getPlace(const onnx::NodeProto &node, const Place &caller) {
  Place place;
  // The module's path, outermost first, then the node's own name.
  SmallVector<StringRef> scopes = parseNames(getMetadata(node, "pkg.torch.onnx.name_scopes"));
  if (scopes.size() >= 2)
    place.modulePath = scopes[scopes.size() - 2].str();
  readStackTrace(getMetadata(node, "pkg.torch.onnx.stack_trace"), place);
  if (place.modulePath.empty() && place.file.empty())
    return scopes.empty() ? caller : place;
  return place;
}

/// "p_head_weight: PARAMETER target='head.weight'", "b_mask: BUFFER target='mask' persistent=False"
static void readSignatureLine(StringRef line, Signature &signature) {
  StringRef rest = line.split(": ").second;
  auto [kind, target] = rest.split(" target='");
  if (target.empty())
    return;
  StringRef name = target.split('\'').first;
  signature.kinds[name] = kind.trim().str();
  if (target.ends_with("persistent=False"))
    signature.transient.insert(name);
  if (kind.trim() == "PARAMETER")
    signature.parameters.push_back(name.str());
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
  return signature;
}

} // namespace parashard::import
