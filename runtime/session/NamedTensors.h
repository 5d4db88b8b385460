// Maps the model's names to whole tensors: variables, aliases, gradients, and tensors that consist
// of several variables.
#ifndef PSRT_SESSION_NAMEDTENSORS_H
#define PSRT_SESSION_NAMEDTENSORS_H

#include "runtime/data/WeightFiles.h"
#include "runtime/session/Session.h"
#include <map>
#include <set>

namespace psrt {

/// A tensor as files and users see it.
struct NamedTensor {
  std::string name;                 ///< the first name
  std::vector<std::string> aliases; ///< all names, including the first
  std::optional<VariableKind> kind; ///< nullopt: a part of a tensor, read by its own symbol
  /// Optimizer state with one element per parameter element. It is one tensor under the parameter's
  /// name ("optimizer.adamw.mean.NAME"), even if several variables hold its parts.
  bool isOfParameter = false;
  bool transient = false;
  bool isOfModel = false; ///< a tensor of the model, not training or precision state
  Dtype dtype = Dtype::F32;
  std::vector<int64_t> shape;
  /// A variable that holds a part of the tensor from `lower` on; an empty `lower` means the whole
  /// tensor.
  struct Part {
    int variable;
    std::vector<int64_t> lower;
  };
  std::vector<Part> parts;

  int64_t bytes() const;
};

/// All tensors of a program by name.
class NamedTensors {
public:
  explicit NamedTensors(const Program &program);
  /// Finds a tensor by name: a model name, else a symbol, "grad.NAME" for a gradient or "ema.NAME"
  /// for an average. If the model itself uses such a name, that name is the model's tensor; the
  /// gradient is then "grad.self.NAME" and the loss scale is "state.loss_scale".
  const NamedTensor *find(const std::string &name) const;
  /// Returns the average of a parameter, or null.
  const NamedTensor *findAverage(const NamedTensor &of) const;
  /// Finds a tensor by name. Fails if there is none, listing some names.
  const NamedTensor &get(const std::string &name) const;
  const std::vector<NamedTensor> &all() const { return tensors; }

private:
  void add(const Program &program, int variable, std::vector<std::string> names,
           const Variable &view);
  /// Returns a name that is not a model's tensor, for state that belongs to the model's tensor
  /// `name` or, with an empty prefix, to the runtime. Inserts `more` until the name is unique.
  std::string derive(std::string prefix, const std::string &name, const char *more = "self.") const;
  std::vector<NamedTensor> tensors;
  std::set<std::string> modelNames;
  std::map<std::string, size_t> byName;
};

/// Returns whether a variable is optimizer state with one element per parameter element.
bool isStateOf(const Variable &variable, const Variable &parameter);

/// Returns a description such as "f32 [4, 8]".
std::string describeTensor(Dtype dtype, const std::vector<int64_t> &shape);

/// Gathers a whole tensor from its parts, in the first process.
void readTensor(Session &session, const NamedTensor &tensor, char *whole);
/// Sets the parts of a tensor from a whole tensor.
void writeTensor(Session &session, const NamedTensor &tensor, const char *whole);

/// Sets variables from files by any of their names. Fails if a parameter is missing under all of
/// its names, or if a file has an unknown tensor. Floats of another dtype are converted. Returns
/// notes on conversions: "FILE: 12 tensors of bf16 are converted to f32".
std::vector<std::string> loadWeights(Session &session, const NamedTensors &tensors,
                                     const WeightFiles &files);
/// Options for writing weights.
struct ExportOptions {
  int64_t maxFileBytes = 5'000'000'000; ///< largest file of a folder, unless one tensor is larger
  bool averages = false; ///< write the average of each parameter that has one instead
  /// Selects tensors. "trained": only trained parameters; another text: a glob of names; empty:
  /// all.
  std::string only;
  bool trained = false; ///< fail if an update has made a weight nan or infinite
};

/// Writes every persistent parameter and buffer as a whole tensor. PATH.safetensors gets each
/// tensor under all of its names; a folder in Hugging Face's layout gets only the first name.
void exportWeights(Session &session, const NamedTensors &tensors, const std::string &path,
                   const ExportOptions &options);
/// Returns the bytes of the tensors that `exportWeights` writes.
int64_t countExportedBytes(Session &session, const NamedTensors &tensors, const std::string &path,
                           const ExportOptions &options);
/// Fails with BadArgument if ExportOptions::only selects nothing.
void checkExportOnly(const Program &program, const NamedTensors &tensors, const std::string &only);
/// Sets a scalar and the scalars of its groups ("lr" also sets "lr.0", "lr.1", ...). "step" cannot
/// be set.
void setScalars(Session &session, const std::string &name, double value);
/// Sets the learning rate of the optimizer groups whose parameters `glob` matches. Fails if `glob`
/// matches only part of a group.
void setRates(Session &session, const std::string &glob, double value);

} // namespace psrt

#endif
