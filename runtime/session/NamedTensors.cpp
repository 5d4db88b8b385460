// Builds the map of names, and reads and writes tensors of several parts.
#include "runtime/session/NamedTensors.h"
#include <algorithm>
#include <cstring>

namespace psrt {

int64_t NamedTensor::bytes() const {
  int64_t result = dtypeSize(dtype);
  for (int64_t size : shape)
    result *= size;
  return result;
}

bool isStateOf(const Variable &variable, const Variable &parameter) {
  return variable.kind == VariableKind::Optimizer &&
         variable.placement.shape == parameter.placement.shape &&
         variable.symbol.starts_with(parameter.symbol + ".");
}

std::string describeTensor(Dtype dtype, const std::vector<int64_t> &shape) {
  std::string sizes;
  for (int64_t size : shape)
    sizes += format("%s%lld", sizes.empty() ? "" : ", ", (long long)size);
  return format("%s [%s]", dtypeName(dtype), sizes.c_str());
}

NamedTensors::NamedTensors(const Program &program) {
  for (size_t i = 0; i < program.variables.size(); ++i) {
    const Variable &variable = program.variables[i];
    if (!variable.names.empty())
      add(program, int(i), variable.names, variable);
  }
  for (const auto &[name, tensor] : byName)
    modelNames.insert(name);
  for (size_t i = 0; i < program.variables.size(); ++i) {
    const Variable &variable = program.variables[i];
    if (!variable.addsTo.empty())
      continue; // read together with the variable that it adds to
    if (variable.form != ScalarForm::Value)
      continue; // set together with the scalar that it is a form of
    int of = program.variable(variable.of);
    bool gradient = variable.kind == VariableKind::Gradient;
    if (of >= 0 && isStateOf(variable, program.variables[of])) {
      // The symbol of the state is the symbol of the parameter (or of its part) and a suffix.
      const Variable &parameter = program.variables[of];
      std::string name = derive("optimizer" + variable.symbol.substr(parameter.symbol.size()) + ".",
                                parameter.displayName());
      add(program, int(i), {name}, parameter);
      tensors[byName.at(name)].isOfParameter = true;
    }
    if (of >= 0 && (gradient || variable.kind == VariableKind::Average))
      add(program, int(i),
          {derive(gradient ? "grad." : "ema.", program.variables[of].displayName())},
          program.variables[of]);
    else if (variable.names.empty())
      add(program, int(i), {derive("", variable.symbol, "state.")}, Variable());
    else if (!byName.contains(variable.symbol)) {
      // A part of a tensor is readable by its symbol. Files contain only the whole tensor, not its
      // parts.
      add(program, int(i), {variable.symbol}, Variable());
      tensors.back().kind = std::nullopt;
      tensors.back().isOfModel = false;
    }
  }
}

std::string NamedTensors::derive(std::string prefix, const std::string &name,
                                 const char *more) const {
  while (modelNames.contains(prefix + name))
    prefix += more;
  return prefix + name;
}

/// Adds a variable under `names`. The file range of `view` (`file.lower`) specifies which part of
/// the tensor the variable contains. `view` is the variable itself, or the parameter of a gradient,
/// average or optimizer state. Without a file range, the variable contains the whole tensor.
void NamedTensors::add(const Program &program, int index, std::vector<std::string> names,
                       const Variable &view) {
  const Variable &variable = program.variables[index];
  bool part = !view.file.lower.empty() && view.file.shape.size() == variable.placement.shape.size();
  auto known = byName.find(names.front());
  if (known == byName.end()) {
    NamedTensor tensor;
    tensor.name = names.front();
    tensor.kind = variable.kind;
    tensor.transient = variable.transient;
    tensor.isOfModel = !variable.names.empty();
    tensor.dtype = variable.dtype;
    tensor.shape = part ? view.file.shape : variable.placement.shape;
    known = byName.emplace(names.front(), tensors.size()).first;
    tensors.push_back(std::move(tensor));
  }
  NamedTensor &tensor = tensors[known->second];
  tensor.parts.push_back({index, part ? view.file.lower : std::vector<int64_t>()});
  for (std::string &name : names) {
    byName.emplace(name, known->second);
    if (std::find(tensor.aliases.begin(), tensor.aliases.end(), name) == tensor.aliases.end())
      tensor.aliases.push_back(std::move(name));
  }
}

const NamedTensor *NamedTensors::find(const std::string &name) const {
  auto it = byName.find(name);
  for (const std::string prefix : {"grad.", "ema."})
    if (it == byName.end() && name.starts_with(prefix))
      if (auto of = byName.find(name.substr(prefix.size())); of != byName.end())
        it = byName.find(derive(prefix, tensors[of->second].name));
  return it == byName.end() ? nullptr : &tensors[it->second];
}

const NamedTensor *NamedTensors::findAverage(const NamedTensor &of) const {
  auto it = byName.find(derive("ema.", of.name));
  return it == byName.end() ? nullptr : &tensors[it->second];
}

const NamedTensor &NamedTensors::get(const std::string &name) const {
  if (const NamedTensor *tensor = find(name))
    return *tensor;
  std::string some;
  for (size_t i = 0; i < tensors.size() && i < 5; ++i)
    some += (i ? ", " : "") + tensors[i].name;
  PSRT_FAIL(BadArgument, "the program has no tensor \"%s\"; it has %zu tensors: %s%s", name.c_str(),
            tensors.size(), some.c_str(), tensors.size() > 5 ? ", ..." : "");
}

/// Calls copy(index in the tensor, index in the part, count) for each row of a part. `shape` is the
/// shape of the part.
template <typename Copy>
static void forEachPartRow(const NamedTensor &tensor, const std::vector<int64_t> &shape,
                           const std::vector<int64_t> &lower, Copy copy) {
  int64_t rank = shape.size(), row = rank ? shape.back() : 1, rows = 1;
  for (int64_t d = 0; d + 1 < rank; ++d)
    rows *= shape[d];
  for (int64_t r = 0; r < rows; ++r) {
    int64_t rest = r, stride = rank ? tensor.shape.back() : 1, at = rank ? lower.back() : 0;
    for (int64_t d = rank - 1; d-- > 0;) {
      at += (rest % shape[d] + lower[d]) * stride;
      rest /= shape[d];
      stride *= tensor.shape[d];
    }
    copy(at, r * row, row);
  }
}

void readTensor(Session &session, const NamedTensor &tensor, char *whole) {
  int64_t size = dtypeSize(tensor.dtype);
  for (const NamedTensor::Part &part : tensor.parts) {
    if (part.lower.empty()) {
      session.readVariable(part.variable, whole);
      continue;
    }
    const Placement &placement = session.getProgram().variables[part.variable].placement;
    std::vector<char> buffer(placement.count() * size);
    session.readVariable(part.variable, buffer.data());
    forEachPartRow(tensor, placement.shape, part.lower, [&](int64_t to, int64_t from, int64_t n) {
      std::memcpy(whole + to * size, buffer.data() + from * size, n * size);
    });
  }
}

void writeTensor(Session &session, const NamedTensor &tensor, const char *whole) {
  int64_t size = dtypeSize(tensor.dtype);
  for (const NamedTensor::Part &part : tensor.parts) {
    if (part.lower.empty()) {
      session.writeVariable(part.variable, whole);
      continue;
    }
    const Placement &placement = session.getProgram().variables[part.variable].placement;
    std::vector<char> buffer(placement.count() * size);
    forEachPartRow(tensor, placement.shape, part.lower, [&](int64_t from, int64_t to, int64_t n) {
      std::memcpy(buffer.data() + to * size, whole + from * size, n * size);
    });
    session.writeVariable(part.variable, buffer.data());
  }
}

} // namespace psrt
