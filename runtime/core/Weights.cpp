// Weight files in and out, by the model's names.
#include "runtime/core/NamedTensors.h"
#include "runtime/data/Safetensors.h"
#include <set>

namespace psrt {

static std::string shapeText(const std::vector<int64_t> &shape) {
  std::string result;
  for (int64_t size : shape)
    result += format("%s%lld", result.empty() ? "" : ", ", (long long)size);
  return "[" + result + "]";
}

static void loadTensor(Session &session, const NamedTensor &tensor,
                       const SafetensorsFile::Tensor &given, const std::string &path) {
  if (given.dtype != tensor.dtype || given.shape != tensor.shape)
    PSRT_FAIL(BadInput, "\"%s\": \"%s\" is %s %s, the model's is %s %s", path.c_str(),
              tensor.name.c_str(), dtypeName(given.dtype), shapeText(given.shape).c_str(),
              dtypeName(tensor.dtype), shapeText(tensor.shape).c_str());
  writeTensor(session, tensor, given.data);
}

void loadWeights(Session &session, const NamedTensors &tensors, const std::string &path) {
  SafetensorsFile file(path);
  for (const auto &[name, given] : file.tensors())
    if (!tensors.find(name))
      PSRT_FAIL(BadInput, "\"%s\" has a tensor \"%s\", the model has no variable of that name",
                path.c_str(), name.c_str());
  for (const NamedTensor &tensor : tensors.all()) {
    const SafetensorsFile::Tensor *given = nullptr;
    for (const std::string &name : tensor.aliases)
      given = given ? given : file.find(name);
    if (given)
      loadTensor(session, tensor, *given, path);
    else if (tensor.kind == "parameter")
      PSRT_FAIL(BadInput, "\"%s\" has no tensor \"%s\", which the model needs", path.c_str(),
                tensor.name.c_str());
  }
}

void exportWeights(Session &session, const NamedTensors &tensors, const std::string &path) {
  SafetensorsWriter writer;
  for (const NamedTensor &tensor : tensors.all()) {
    bool persistent = (tensor.kind == "parameter" || tensor.kind == "buffer") && !tensor.transient;
    if (persistent)
      for (const std::string &name : tensor.aliases)
        writer.add(name, tensor.dtype, tensor.shape,
                   [&](char *data) { readTensor(session, tensor, data); });
  }
  writer.write(path);
}

void setScalars(Session &session, const std::string &name, double value) {
  bool found = false;
  for (const Variable &variable : session.getProgram().variables) {
    bool group =
        variable.symbol.rfind(name + ".", 0) == 0 &&
        variable.symbol.find_first_not_of("0123456789", name.size() + 1) == std::string::npos;
    if (variable.kind == "scalar" && (variable.symbol == name || group)) {
      session.setScalar(variable.symbol, value);
      found = true;
    }
  }
  if (!found)
    PSRT_FAIL(BadArgument, "the program has no scalar \"%s\"", name.c_str());
}

} // namespace psrt
