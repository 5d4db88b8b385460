// Loads and exports weights by the model's names, and sets scalars of the update.
#include "runtime/core/Element.h"
#include "runtime/core/ProgramJson.h"
#include "runtime/core/ScalarRange.h"
#include "runtime/session/FiniteWeights.h"
#include "shared/Globs.h"
#include "shared/NearestNames.h"
#include <algorithm>
#include <cmath>

namespace psrt {

using Conversions =
    std::map<std::pair<Dtype, Dtype>, int64_t>; ///< number of tensors per pair of dtypes

/// Sets a tensor from a file, converting floats.
static void loadTensor(Session &session, const NamedTensor &tensor,
                       const SafetensorsFile::Tensor &given, const std::string &path,
                       Conversions &conversions) {
  bool converts = given.dtype != tensor.dtype;
  if (given.shape != tensor.shape || (converts && !(isFloat(given.dtype) && isFloat(tensor.dtype))))
    PSRT_FAIL(BadInput,
              "\"%s\": tensor \"%s\" is %s, but in the model it is %s; give weights of this model",
              path.c_str(), tensor.name.c_str(), describeTensor(given.dtype, given.shape).c_str(),
              describeTensor(tensor.dtype, tensor.shape).c_str());
  if (!converts)
    return writeTensor(session, tensor, given.data);
  std::vector<char> converted(tensor.bytes());
  convertFloats(given.data, given.dtype, converted.data(), tensor.dtype,
                tensor.bytes() / dtypeSize(tensor.dtype));
  writeTensor(session, tensor, converted.data());
  ++conversions[{given.dtype, tensor.dtype}];
}

std::vector<std::string> loadWeights(Session &session, const NamedTensors &tensors,
                                     const WeightFiles &files) {
  const std::string &path = files.path();
  for (const auto &[name, given] : files.tensors())
    if (const NamedTensor *tensor = tensors.find(name); !tensor || !tensor->isOfModel)
      PSRT_FAIL(BadInput,
                "\"%s\" has a tensor \"%s\", but the model has no variable of that name; remove or "
                "rename it",
                path.c_str(), name.c_str());
  Conversions conversions;
  for (const NamedTensor &tensor : tensors.all()) {
    const SafetensorsFile::Tensor *given = nullptr;
    for (const std::string &name : tensor.aliases)
      given = given ? given : files.find(name);
    if (given)
      loadTensor(session, tensor, *given, path, conversions);
    else if (tensor.kind == VariableKind::Parameter)
      PSRT_FAIL(
          BadInput,
          "\"%s\" has no tensor \"%s\", which the model needs; give a file with all parameters",
          path.c_str(), tensor.name.c_str());
  }
  std::vector<std::string> notes;
  for (const auto &[dtypes, count] : conversions)
    notes.push_back(format("\"%s\": %lld tensor%s of %s %s converted to %s", path.c_str(),
                           (long long)count, count == 1 ? "" : "s", dtypeName(dtypes.first),
                           count == 1 ? "is" : "are", dtypeName(dtypes.second)));
  return notes;
}

static bool isPersistent(const NamedTensor &tensor) {
  return (tensor.kind == VariableKind::Parameter || tensor.kind == VariableKind::Buffer) &&
         !tensor.transient;
}

/// Returns whether `--export-only` selects a tensor.
static bool isSelected(const Program &program, const NamedTensor &tensor, const std::string &only) {
  if (only.empty())
    return true;
  if (only == "trained")
    return isTrained(program, tensor);
  return std::any_of(tensor.aliases.begin(), tensor.aliases.end(),
                     [&](const std::string &name) { return parashard::matchesGlob(only, name); });
}

void checkExportOnly(const Program &program, const NamedTensors &tensors, const std::string &only) {
  std::vector<std::string> names;
  for (const NamedTensor &tensor : tensors.all()) {
    if (!isPersistent(tensor))
      continue;
    if (isSelected(program, tensor, only))
      return;
    names.push_back(tensor.name);
  }
  if (only == "trained")
    PSRT_FAIL(BadArgument, "--export-only trained: all parameters are frozen; omit the flag");
  PSRT_FAIL(BadArgument, "--export-only \"%s\" matches no tensor%s", only.c_str(),
            parashard::describeNearest(only, names).c_str());
}

/// Reads a tensor to export. Only rank 0 gets the values.
static void readWeight(Session &session, const NamedTensor &tensor, const ExportOptions &options,
                       char *data) {
  readTensor(session, tensor, data);
  if (options.trained && session.isFirst())
    checkFinite(session.getProgram(), tensor, data, countElements(tensor.shape), session.step);
}

static std::vector<WeightToWrite> listWeights(Session &session, const NamedTensors &tensors,
                                              const std::string &path,
                                              const ExportOptions &options) {
  bool folder = isWeightFolder(path);
  std::vector<WeightToWrite> weights;
  for (const NamedTensor &tensor : tensors.all()) {
    if (!isPersistent(tensor) || !isSelected(session.getProgram(), tensor, options.only))
      continue;
    const NamedTensor *average = options.averages ? tensors.findAverage(tensor) : nullptr;
    const NamedTensor &source = average ? *average : tensor;
    for (const std::string &name : tensor.aliases)
      if (!folder || name == tensor.name)
        weights.push_back(
            {name, source.dtype, source.shape, [&session, &source, &options](char *data) {
               readWeight(session, source, options, data);
             }});
  }
  return weights;
}

int64_t countExportedBytes(Session &session, const NamedTensors &tensors, const std::string &path,
                           const ExportOptions &options) {
  int64_t bytes = 0;
  for (const WeightToWrite &weight : listWeights(session, tensors, path, options))
    bytes += countElements(weight.shape) * dtypeSize(weight.dtype);
  return bytes;
}

void exportWeights(Session &session, const NamedTensors &tensors, const std::string &path,
                   const ExportOptions &options) {
  std::vector<WeightToWrite> weights = listWeights(session, tensors, path, options);
  std::string own = session.isFirst() ? path : "";
  if (isWeightFolder(path))
    return writeWeightFolder(own, weights, options.maxFileBytes);
  SafetensorsWriter writer;
  for (WeightToWrite &weight : weights)
    writer.add(weight.name, weight.dtype, weight.shape, std::move(weight.fill));
  writer.write(own);
}

//===--- scalars ----------------------------------------------------------===//

/// Returns whether `symbol` is the scalar `name` of an optimizer group. Example: "lr.3" for "lr".
static bool isGroupOf(const std::string &symbol, const std::string &name) {
  return symbol.starts_with(name + ".") &&
         symbol.find_first_not_of("0123456789", name.size() + 1) == std::string::npos;
}

/// Fails if the value is outside of the valid range of the scalar.
static void checkScalar(const std::string &name, double value) {
  if (std::string expected = describeScalarRange(name, value); !expected.empty())
    PSRT_FAIL(BadArgument, "scalar \"%s\" cannot be %g; expected %s", name.c_str(), value,
              expected.c_str());
}

void setScalars(Session &session, const std::string &name, double value) {
  checkScalar(name, value);
  bool found = false;
  std::string names;
  for (const Variable &variable : session.getProgram().variables) {
    if (!variable.isSettable())
      continue;
    names += (names.empty() ? "" : ", ") + variable.symbol;
    if (variable.symbol == name || isGroupOf(variable.symbol, name)) {
      session.setScalar(variable.symbol, value);
      found = true;
    }
  }
  if (!found)
    PSRT_FAIL(BadArgument, "cannot set \"%s\": the program has no such scalar; it has: %s",
              name.c_str(), names.empty() ? "none" : names.c_str());
}

static bool matchesGlob(const std::string &glob, const Variable &variable) {
  for (const std::string &name : variable.names)
    if (parashard::matchesGlob(glob, name))
      return true;
  return parashard::matchesGlob(glob, variable.symbol);
}

void setRates(Session &session, const std::string &glob, double value) {
  std::map<std::string, const Variable *> inside, outside; // one parameter for each learning rate
  std::vector<std::string> trained;
  for (const Variable &variable : session.getProgram().variables)
    if (variable.kind == VariableKind::Parameter && !variable.frozen) {
      (matchesGlob(glob, variable) ? inside : outside).emplace(variable.rate, &variable);
      trained.push_back(variable.displayName());
    }
  if (inside.empty())
    PSRT_FAIL(BadArgument, "--set: \"%s\" matches no trained parameter%s", glob.c_str(),
              parashard::describeNearest(glob, trained).c_str());
  for (const auto &[rate, parameter] : inside) {
    if (auto other = outside.find(rate); other != outside.end())
      PSRT_FAIL(
          BadArgument,
          "--set: \"%s\" matches \"%s\" but not \"%s\", and both have the same learning rate, "
          "since they are in one optimizer group; compile with --optimizer \"%s=...\" before the "
          "other --optimizer flags",
          glob.c_str(), parameter->displayName().c_str(), other->second->displayName().c_str(),
          glob.c_str());
    session.setScalar(rate, value);
  }
}

} // namespace psrt
