// Finds fields of an ONNX file that `onnx.proto` does not declare.
#include "lib/Import/Onnx/UnreadFields.h"
#include "lib/Import/Onnx/Wire.h"
#include "llvm/ADT/ArrayRef.h"
#include <optional>

using namespace llvm;

namespace parashard::import {
namespace {

/// A field of the format that the importer does not read.
struct UnreadField {
  unsigned number;
  StringLiteral name;
};

constexpr UnreadField kModelFields[] = {{20, "training_info"}, {26, "configuration"}};
constexpr UnreadField kGraphFields[] = {{14, "quantization_annotation"}};
constexpr UnreadField kNodeFields[] = {{10, "device_configurations"}};
constexpr UnreadField kTensorFields[] = {{3, "segment"}, {6, "string_data"}};
constexpr UnreadField kAttributeFields[] = {{10, "tensors"},
                                            {14, "tp"},
                                            {15, "type_protos"},
                                            {22, "sparse_tensor"},
                                            {23, "sparse_tensors"}};

/// Finds the first unread field of a model. Each kind of message has its own `visit`.
class Walk {
public:
  std::string found;

  void visit(const onnx::ModelProto &model) {
    check(model, "the model", kModelFields);
    visitAll(model.metadata_props(), "the model");
    for (const onnx::OperatorSetIdProto &set : model.opset_import())
      check(set, "the opset of '" + set.domain() + "'");
    visit(model.graph());
    for (const onnx::FunctionProto &function : model.functions())
      visit(function);
  }

  void visit(const onnx::TensorProto &tensor, const std::string &owner = "") {
    std::string where = "the tensor '" + tensor.name() + "'" + owner;
    check(tensor, where, kTensorFields);
    visitAll(tensor.external_data(), where);
    visitAll(tensor.metadata_props(), where);
  }

private:
  void visit(const onnx::GraphProto &graph) {
    std::string where = "the graph '" + graph.name() + "'";
    check(graph, where, kGraphFields);
    visitAll(graph.metadata_props(), where);
    for (const auto *values : {&graph.input(), &graph.output(), &graph.value_info()})
      for (const onnx::ValueInfoProto &value : *values)
        visit(value);
    for (const onnx::TensorProto &tensor : graph.initializer())
      visit(tensor);
    for (const onnx::NodeProto &node : graph.node())
      visit(node);
  }

  void visit(const onnx::FunctionProto &function) {
    std::string where = "the function '" + function.name() + "'";
    check(function, where);
    visitAll(function.metadata_props(), where);
    for (const onnx::OperatorSetIdProto &set : function.opset_import())
      check(set, where);
    for (const onnx::ValueInfoProto &value : function.value_info())
      visit(value);
    for (const onnx::AttributeProto &attribute : function.attribute_proto())
      visit(attribute, where);
    for (const onnx::NodeProto &node : function.node())
      visit(node);
  }

  void visit(const onnx::NodeProto &node) {
    std::string where = "'" + node.op_type() + "' (node '" + node.name() + "')";
    check(node, where, kNodeFields);
    visitAll(node.metadata_props(), where);
    for (const onnx::AttributeProto &attribute : node.attribute())
      visit(attribute, where);
  }

  void visit(const onnx::AttributeProto &attribute, const std::string &owner) {
    std::string where = "the attribute '" + attribute.name() + "' of " + owner;
    check(attribute, where, kAttributeFields);
    if (attribute.has_t())
      visit(attribute.t(), " in " + where);
    if (attribute.has_g())
      visit(attribute.g());
    for (const onnx::GraphProto &graph : attribute.graphs())
      visit(graph);
  }

  void visit(const onnx::ValueInfoProto &value) {
    std::string where = "the value '" + value.name() + "'";
    check(value, where);
    visitAll(value.metadata_props(), where);
    check(value.type(), where);
    check(value.type().tensor_type(), where);
    check(value.type().tensor_type().shape(), where);
    for (const onnx::TensorShapeProto::Dimension &dim : value.type().tensor_type().shape().dim())
      check(dim, where);
  }

  template <typename Entries> void visitAll(const Entries &entries, const std::string &where) {
    for (const onnx::StringStringEntryProto &entry : entries)
      check(entry, where);
  }

  template <typename Message>
  void check(const Message &message, const std::string &where, ArrayRef<UnreadField> names = {}) {
    if (!found.empty() || message.unknown_fields().empty())
      return;
    WireReader reader(message.unknown_fields());
    std::optional<WireField> field = reader.next();
    unsigned number = field ? field->number : 0;
    found = "the field ";
    for (const UnreadField &known : names)
      if (known.number == number)
        found += "'" + known.name.str() + "' ";
    found += "(" + std::to_string(number) + ") of " + where;
  }
};

template <typename Message> std::string walk(const Message &message) {
  Walk walk;
  walk.visit(message);
  return walk.found;
}

} // namespace

std::string findUnreadField(const onnx::ModelProto &model) { return walk(model); }
std::string findUnreadField(const onnx::TensorProto &tensor) { return walk(tensor); }

} // namespace parashard::import
