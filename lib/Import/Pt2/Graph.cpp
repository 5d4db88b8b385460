// Parses and checks the JSON of an exported program.
#include "lib/Import/Pt2/Graph.h"
#include "lib/Support/JsonDocument.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;
using namespace parashard::support;

namespace parashard::import {
namespace {

/// Reads JSON values and records the first error. After an error, reads return empty values, so
/// that the functions below need no error handling.
class Reader {
public:
  std::string failure;
  StringRef archivePath;

  void fail(const Twine &message) {
    if (failure.empty())
      failure = message.str();
  }
  /// Returns `value`. Records an error if it is not an object.
  JsonValue object(JsonValue value, const Twine &name) {
    if (!value.isObject())
      fail(name + " is not an object");
    return value;
  }
  JsonValue member(JsonValue parent, StringRef key) {
    return object(parent.get(key).value_or(JsonValue()), "'" + key + "'");
  }
  std::vector<JsonValue> array(JsonValue parent, StringRef key) {
    if (std::optional<JsonValue> array = parent.getArray(key))
      return array->getElements();
    fail("'" + key + "' is not an array");
    return {};
  }
  std::string string(JsonValue parent, StringRef key) {
    if (std::optional<std::string> s = parent.getString(key))
      return *s;
    fail("'" + key + "' is not a string");
    return "";
  }
  int64_t integer(JsonValue parent, StringRef key) {
    if (std::optional<int64_t> i = parent.getInteger(key))
      return *i;
    fail("'" + key + "' is not an integer");
    return 0;
  }
  /// Returns `read`, the result of parsing `value` as kind `tag`. Records an error if `read` is
  /// nullopt.
  template <typename T> T require(std::optional<T> read, StringRef tag, JsonValue value) {
    if (!read)
      fail("'" + tag + "' has the value " + value.describe());
    return read.value_or(T());
  }
};

double readFloat(Reader &r, JsonValue value) {
  if (std::optional<double> d = value.getAsNumber())
    return *d;
  // Infinities and NaN are strings.
  std::string s = value.getAsString().value_or("");
  if (s == "Infinity")
    return std::numeric_limits<double>::infinity();
  if (s == "-Infinity")
    return -std::numeric_limits<double>::infinity();
  if (s != "NaN")
    r.fail("a float is " + value.describe());
  return std::numeric_limits<double>::quiet_NaN();
}

/// Reads a SymInt: {"as_int": n} or {"as_expr": {"expr_str": s, "hint": {"as_int": n}}}.
Size readSize(Reader &r, JsonValue value) {
  Size size;
  JsonValue object = r.object(value, "a size");
  if (std::optional<int64_t> i = object.getInteger("as_int")) {
    size.value = *i;
  } else if (std::optional<JsonValue> expression = object.getObject("as_expr")) {
    size.expression = r.string(*expression, "expr_str");
    std::optional<JsonValue> hint = expression->getObject("hint");
    std::optional<int64_t> i = hint ? hint->getInteger("as_int") : std::nullopt;
    size.hasHint = i.has_value();
    size.value = i.value_or(0);
  } else {
    r.fail("a size is neither 'as_int' nor 'as_expr'");
  }
  return size;
}

/// Reads a SymIntArgument: {"as_int": n} or {"as_name": s}.
Size readSizeArgument(Reader &r, JsonValue value) {
  Size size;
  JsonValue object = r.object(value, "an int argument");
  if (std::optional<std::string> name = object.getString("as_name"))
    size.valueName = *name;
  else
    size.value = r.integer(object, "as_int");
  return size;
}

TensorMeta readTensorMeta(Reader &r, JsonValue value) {
  TensorMeta meta;
  JsonValue object = r.object(value, "tensor metadata");
  meta.dtype = r.integer(object, "dtype");
  for (JsonValue size : r.array(object, "sizes"))
    meta.sizes.push_back(readSize(r, size));
  for (JsonValue stride : r.array(object, "strides"))
    meta.strides.push_back(readSize(r, stride));
  if (std::optional<JsonValue> offset = object.get("storage_offset"))
    meta.storageOffset = readSize(r, *offset);
  meta.requiresGrad = object.getBoolean("requires_grad").value_or(false);
  return meta;
}

Graph readGraph(Reader &r, JsonValue object);

std::string readTensorName(Reader &r, JsonValue value) {
  JsonValue object = r.object(value, "a tensor argument");
  // An optional tensor is also a union.
  if (std::optional<JsonValue> tensor = object.getObject("as_tensor"))
    return r.string(*tensor, "name");
  if (object.get("as_none"))
    return "";
  return r.string(object, "name");
}

void readArgumentValue(Reader &r, StringRef tag, JsonValue value, Argument &out) {
  std::vector<JsonValue> list = value.getElements();
  if (tag == "as_none") {
    out.kind = Argument::None;
  } else if (tag == "as_tensor" || tag == "as_optional_tensor") {
    out.names = {readTensorName(r, value)};
    out.kind = out.names[0].empty() ? Argument::None : Argument::Tensor;
  } else if (tag == "as_tensors" || tag == "as_optional_tensors") {
    out.kind = Argument::Tensors;
    for (JsonValue v : list)
      out.names.push_back(readTensorName(r, v));
  } else if (tag == "as_int") {
    out.kind = Argument::Int;
    out.sizes.emplace_back().value = r.require(value.getAsInteger(), tag, value);
  } else if (tag == "as_ints") {
    out.kind = Argument::Ints;
    for (JsonValue v : list)
      out.sizes.emplace_back().value = r.require(v.getAsInteger(), tag, v);
  } else if (tag == "as_sym_int") {
    out.kind = Argument::Int;
    out.sizes = {readSizeArgument(r, value)};
  } else if (tag == "as_sym_ints") {
    out.kind = Argument::Ints;
    for (JsonValue v : list)
      out.sizes.push_back(readSizeArgument(r, v));
  } else if (tag == "as_float") {
    out.kind = Argument::Float;
    out.floats = {readFloat(r, value)};
  } else if (tag == "as_floats") {
    out.kind = Argument::Floats;
    for (JsonValue v : list)
      out.floats.push_back(readFloat(r, v));
  } else if (tag == "as_bool") {
    out.kind = Argument::Bool;
    out.bools = {r.require(value.getAsBoolean(), tag, value)};
  } else if (tag == "as_bools") {
    out.kind = Argument::Bools;
    for (JsonValue v : list)
      out.bools.push_back(r.require(v.getAsBoolean(), tag, v));
  } else if (tag == "as_string" || tag == "as_operator") {
    out.kind = Argument::String;
    out.names = {r.require(value.getAsString(), tag, value)};
  } else if (tag == "as_scalar_type") {
    out.kind = Argument::Dtype;
    out.dtype = r.require(value.getAsInteger(), tag, value);
  } else if (tag == "as_graph") {
    out.kind = Argument::Graph;
    JsonValue object = r.object(value, "a graph argument");
    out.graph = std::make_shared<Graph>(readGraph(r, r.member(object, "graph")));
  } else {
    out.kind = Argument::Other;
    out.other = tag.str();
  }
}

/// Reads a union: an object in which exactly one entry, the value, is not null.
Argument readArgument(Reader &r, JsonValue value) {
  Argument out;
  auto members = r.object(value, "an argument").getMembers();
  for (const auto &[tag, held] : members)
    if (members.size() == 1 || !held.isNull())
      readArgumentValue(r, tag, held, out);
  return out;
}

/// Reads the path of the innermost module from "key,path,type;key,path,type". Removes a suffix such
/// as "@1", which numbers repeated calls.
void readModuleStack(StringRef stack, Node &node) {
  if (stack.empty())
    return;
  StringRef last = stack.contains(';') ? stack.rsplit(';').second : stack;
  node.source.modulePath = last.split(',').second.split(',').first.split('@').first.str();
}

/// Records an error if an argument of a node is given twice.
void checkArguments(Reader &r, const Node &node) {
  StringSet<> names;
  for (const Argument &argument : node.inputs)
    if (!argument.name.empty() && !names.insert(argument.name).second)
      r.fail("'" + node.target + "' has the argument '" + argument.name + "' twice");
}

Node readNode(Reader &r, JsonValue value) {
  Node node;
  JsonValue object = r.object(value, "a node");
  node.target = object.getString("target").value_or("");
  if (StringRef name = node.target; name.consume_front("torch.ops."))
    node.target = name.str();
  for (JsonValue input : r.array(object, "inputs")) {
    JsonValue named = r.object(input, "an input of '" + node.target + "'");
    if (std::optional<JsonValue> arg = named.get("arg"))
      node.inputs.push_back(readArgument(r, *arg));
    else
      r.fail("an input of '" + node.target + "' has no 'arg'");
    if (!node.inputs.empty())
      node.inputs.back().name = r.string(named, "name");
  }
  checkArguments(r, node);
  for (JsonValue output : r.array(object, "outputs")) {
    Argument argument = readArgument(r, output);
    node.hasResults = true;
    if (argument.kind == Argument::Tensor || argument.kind == Argument::Tensors)
      append_range(node.outputs, argument.names);
    else if (argument.kind == Argument::None)
      node.outputs.push_back("");
  }
  node.source.file = r.archivePath.str();
  if (std::optional<JsonValue> metadata = object.getObject("metadata")) {
    readStackTrace(metadata->getString("stack_trace").value_or(""), node.source);
    readModuleStack(metadata->getString("nn_module_stack").value_or(""), node);
  }
  return node;
}

/// Records an error if two values of a graph have the same name.
void checkNames(Reader &r, const Graph &graph) {
  StringSet<> names;
  for (const Argument &input : graph.inputs)
    for (const std::string &name : input.names)
      if (input.kind == Argument::Tensor && !names.insert(name).second)
        r.fail("two inputs of the graph are named '" + name + "'");
  for (const Node &node : graph.nodes)
    for (const std::string &name : node.outputs)
      if (!name.empty() && !names.insert(name).second)
        r.fail("'" + node.target + "' defines '" + name + "', which the graph has already defined");
}

Graph readGraph(Reader &r, JsonValue object) {
  Graph graph;
  for (JsonValue input : r.array(object, "inputs"))
    graph.inputs.push_back(readArgument(r, input));
  for (JsonValue output : r.array(object, "outputs"))
    graph.outputs.push_back(readArgument(r, output));
  for (JsonValue node : r.array(object, "nodes"))
    graph.nodes.push_back(readNode(r, node));
  checkNames(r, graph);
  for (const auto &[name, meta] : r.member(object, "tensor_values").getMembers())
    graph.tensors[name] = readTensorMeta(r, meta);
  for (const auto &[name, size] : r.member(object, "sym_int_values").getMembers())
    graph.sizes[name] = readSize(r, size);
  return graph;
}

std::string readArgName(Reader &r, JsonValue spec) {
  return r.string(r.member(spec, "arg"), "name");
}

InputSpec readInputSpec(Reader &r, JsonValue value) {
  InputSpec spec;
  JsonValue object = r.object(value, "an input spec");
  if (std::optional<JsonValue> user = object.getObject("user_input")) {
    Argument argument = readArgument(r, r.member(*user, "arg"));
    if (argument.kind == Argument::Tensor) {
      spec.kind = InputSpec::User;
      spec.name = spec.target = argument.names[0];
    } else if (argument.kind == Argument::Int && !argument.sizes[0].isStatic()) {
      r.fail("input '" + argument.sizes[0].valueName +
             "' is an integer, not a tensor; make it a constant of the module");
    }
  } else if (std::optional<JsonValue> parameter = object.getObject("parameter")) {
    spec = {InputSpec::Parameter, readArgName(r, *parameter),
            r.string(*parameter, "parameter_name")};
  } else if (std::optional<JsonValue> buffer = object.getObject("buffer")) {
    spec = {InputSpec::Buffer, readArgName(r, *buffer), r.string(*buffer, "buffer_name"),
            buffer->getBoolean("persistent").value_or(true)};
  } else if (std::optional<JsonValue> constant = object.getObject("tensor_constant")) {
    spec = {InputSpec::Constant, readArgName(r, *constant),
            r.string(*constant, "tensor_constant_name"), false};
  } else if (object.getObject("custom_obj") || object.getObject("token")) {
    r.fail("the model has an input that is a custom object or a token, which is not supported");
  }
  return spec;
}

OutputSpec readOutputSpec(Reader &r, JsonValue value) {
  OutputSpec spec;
  JsonValue object = r.object(value, "an output spec");
  for (StringRef tag : {"user_output", "loss_output"})
    if (std::optional<JsonValue> user = object.getObject(tag)) {
      spec.kind = OutputSpec::User;
      JsonValue argument = r.member(*user, "arg");
      if (tag == "loss_output")
        spec.name = r.string(argument, "name");
      else if (Argument a = readArgument(r, argument); a.kind == Argument::Tensor)
        spec.name = a.names[0];
      return spec;
    }
  if (std::optional<JsonValue> mutation = object.getObject("buffer_mutation"))
    return {OutputSpec::BufferMutation, readArgName(r, *mutation),
            r.string(*mutation, "buffer_name"), ""};
  if (std::optional<JsonValue> mutation = object.getObject("parameter_mutation"))
    return {OutputSpec::ParameterMutation, readArgName(r, *mutation),
            r.string(*mutation, "parameter_name"), ""};
  if (object.getObject("user_input_mutation"))
    r.fail("the model writes into one of its inputs, which is not supported");
  return spec;
}

/// Reads the names in a tree of outputs, which is JSON in a string. Example: [1, {"context":
/// "[\"loss\", \"logits\"]", ...}] has the names loss and logits.
std::vector<std::string> readTreeNames(StringRef text) {
  std::vector<std::string> names;
  Expected<JsonDocument> spec = JsonDocument::parse(text);
  if (!spec)
    return consumeError(spec.takeError()), names;
  std::vector<JsonValue> pair = spec->getRoot().getElements();
  if (pair.size() != 2)
    return names;
  std::string context = pair[1].getString("context").value_or("");
  Expected<JsonDocument> keys = JsonDocument::parse(context);
  if (!keys)
    return consumeError(keys.takeError()), names;
  for (JsonValue key : keys->getRoot().getElements())
    names.push_back(key.getAsString().value_or(""));
  return names;
}

/// If the model returns a dict, returns the keys of the dict, such as "loss" and "logits".
/// Otherwise returns an empty list.
std::vector<std::string> readOutputNames(JsonValue module) {
  std::vector<JsonValue> calls =
      module.get("module_call_graph").value_or(JsonValue()).getElements();
  if (calls.empty())
    return {};
  JsonValue signature = calls.front().get("signature").value_or(JsonValue());
  return readTreeNames(signature.getString("out_spec").value_or(""));
}

/// Sets the labels of outputs: the keys of the dict that the model returns, or else the names in
/// the graph.
void labelOutputs(std::vector<OutputSpec> &outputs, ArrayRef<std::string> names) {
  bool usable =
      names.size() ==
      size_t(count_if(outputs, [](const OutputSpec &o) { return o.kind == OutputSpec::User; }));
  unsigned next = 0;
  for (OutputSpec &output : outputs)
    if (output.kind == OutputSpec::User) {
      output.label = usable && !names[next].empty() ? names[next] : output.name;
      ++next;
    }
}

Error checkVersion(JsonValue object) {
  std::optional<JsonValue> version = object.getObject("schema_version");
  std::optional<int64_t> major = version ? version->getInteger("major") : std::nullopt;
  if (!major)
    return createStringError("models/*.json has no schema_version; it is not an exported program");
  if (*major != 8)
    return createStringError("the exported program has schema version %d; only version 8 (torch "
                             "2.9 to 2.15) is supported",
                             int(*major));
  return Error::success();
}

} // namespace

const Argument *Node::find(StringRef name) const {
  for (const Argument &argument : inputs)
    if (argument.name == name)
      return &argument;
  return nullptr;
}

StringRef Node::getInPlace() const {
  auto [space, rest] = StringRef(target).split('.');
  StringRef op = rest.split('.').first;
  if (space != "aten")
    return "";
  if (const Argument *out = find("out"); out && out->kind == Argument::Tensor)
    return out->names[0];
  if (op.ends_with("_") && !op.ends_with("__"))
    for (const Argument &argument : inputs)
      if (argument.kind == Argument::Tensor)
        return argument.names[0];
  return "";
}

Expected<ExportedProgram> parseExportedProgram(StringRef text, StringRef path) {
  Expected<JsonDocument> document = JsonDocument::parse(text);
  if (!document)
    return createStringError("the model's JSON is damaged: " + toString(document.takeError()));
  Reader r;
  r.archivePath = path;
  JsonValue object = r.object(document->getRoot(), "the exported program");
  if (Error e = checkVersion(object))
    return std::move(e);
  ExportedProgram program;
  JsonValue module = r.member(object, "graph_module");
  program.graph = readGraph(r, r.member(module, "graph"));
  JsonValue signature = r.member(module, "signature");
  for (JsonValue spec : r.array(signature, "input_specs"))
    program.inputs.push_back(readInputSpec(r, spec));
  for (JsonValue spec : r.array(signature, "output_specs"))
    program.outputs.push_back(readOutputSpec(r, spec));
  labelOutputs(program.outputs, readOutputNames(module));
  for (const auto &[symbol, range] : r.member(object, "range_constraints").getMembers()) {
    JsonValue bounds = r.object(range, "a range");
    std::optional<int64_t> least = bounds.getInteger("min_val"),
                           most = bounds.getInteger("max_val");
    program.ranges[symbol] = {least, most};
    if (least && most && *least > *most)
      r.fail("the range of '" + symbol + "' is empty: from " + Twine(*least) + " to " +
             Twine(*most));
  }
  program.torchVersion = object.getString("torch_version").value_or("");
  if (!r.failure.empty())
    return createStringError("the exported program has an unknown form: " + r.failure);
  return program;
}

Expected<std::vector<Payload>> parsePayloads(StringRef text) {
  Expected<JsonDocument> document = JsonDocument::parse(text);
  if (!document)
    return createStringError("a weights or constants config is damaged: " +
                             toString(document.takeError()));
  Reader r;
  std::vector<Payload> payloads;
  JsonValue config = r.object(document->getRoot(), "the config");
  for (const auto &[name, entry] : r.member(config, "config").getMembers()) {
    JsonValue object = r.object(entry, "a config entry");
    Payload payload{name, r.string(object, "path_name"),
                    object.getBoolean("is_param").value_or(false),
                    object.getBoolean("use_pickle").value_or(false), std::nullopt};
    if (std::optional<JsonValue> meta = object.get("tensor_meta"); meta && meta->getAsObject())
      payload.meta = readTensorMeta(r, *meta);
    payloads.push_back(std::move(payload));
  }
  if (!r.failure.empty())
    return createStringError("a weights or constants config has an unknown form: " + r.failure);
  llvm::sort(payloads, [](const Payload &a, const Payload &b) {
    return std::pair(a.file.size(), std::tie(a.file, a.name)) <
           std::pair(b.file.size(), std::tie(b.file, b.name));
  });
  return payloads;
}

} // namespace parashard::import
