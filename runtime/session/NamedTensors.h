// Maps names of the model to tensors: variables, aliases, gradients, and tensors that are split
// into several variables.
#ifndef PSRT_SESSION_NAMEDTENSORS_H
#define PSRT_SESSION_NAMEDTENSORS_H

#include "runtime/data/WeightFiles.h"
#include "runtime/session/Session.h"
#include <map>
#include <set>

namespace psrt {

/// A tensor with the names by which files and users refer to it.
struct NamedTensor {
  std::string name;                 ///< the first name
  std::vector<std::string> aliases; ///< all names, including the first
  std::optional<VariableKind> kind; ///< nullopt: a part of another tensor, readable by its symbol
  /// True for optimizer state with one element per parameter element. Such state is one tensor,
  /// "optimizer.adamw.mean.NAME", even if several variables hold its parts.
  bool isOfParameter = false;
  bool transient = false;
  bool isOfModel = false; ///< a tensor of the model, not training or precision state
  Dtype dtype = Dtype::F32;
  std::vector<int64_t> shape;
  /// A variable that contains a part of the tensor. The part begins at the indices `lower`; if
  /// `lower` is empty, the variable contains the whole tensor.
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
  /// Finds a tensor by its name in the model, by symbol, or as "grad.NAME" or "ema.NAME". Names of
  /// the model have priority: if the model has a tensor "grad.w", the gradient of w is
  /// "grad.self.w". If the model has a tensor "loss_scale", the loss scale is "state.loss_scale".
  const NamedTensor *find(const std::string &name) const;
  /// Returns the average of a parameter, or null.
  const NamedTensor *findAverage(const NamedTensor &of) const;
  /// Finds a tensor by name. If there is none, fails and lists some names.
  const NamedTensor &get(const std::string &name) const;
  const std::vector<NamedTensor> &all() const { return tensors; }

private:
  void add(const Program &program, int variable, std::vector<std::string> names,
           const Variable &view);
  /// Returns `prefix` + `name`, a name for state. Inserts `more` after the prefix, repeatedly,
  /// until no tensor of the model has the resulting name.
  std::string derive(std::string prefix, const std::string &name, const char *more = "self.") const;
  std::vector<NamedTensor> tensors;
  std::set<std::string> modelNames;
  std::map<std::string, size_t> byName;
};

/// Returns whether a variable is optimizer state with one element per parameter element.
bool isStateOf(const Variable &variable, const Variable &parameter);

/// Returns a description such as "f32 [4, 8]".
std::string describeTensor(Dtype dtype, const std::vector<int64_t> &shape);

/// Reads a tensor from its parts. Fills `whole` on rank 0.
void readTensor(Session &session, const NamedTensor &tensor, char *whole);
/// Sets all parts of a tensor from its row-major elements.
void writeTensor(Session &session, const NamedTensor &tensor, const char *whole);

/// Sets variables from files. A tensor may have any of its names. Fails if a parameter is missing,
/// or if a file has an unknown tensor. Floats of another dtype are converted. Returns notes on
/// conversions: "FILE: 12 tensors of bf16 are converted to f32".
std::vector<std::string> loadWeights(Session &session, const NamedTensors &tensors,
                                     const WeightFiles &files);
/// Options for writing weights.
struct ExportOptions {
  int64_t maxFileBytes = 5'000'000'000; ///< largest file of a folder, unless one tensor is larger
  bool averages = false;                ///< write averages instead of parameters, where they exist
  /// Selects tensors. "trained": only trained parameters; another text: a glob of names; empty:
  /// all.
  std::string only;
  bool trained = false; ///< fail if an update has made a weight nan or infinite
};

/// Writes the parameters and persistent buffers that `options.only` selects, with their global
/// shapes. PATH.safetensors gets each tensor under all of its names. A folder in Hugging Face's
/// layout gets each tensor under its first name.
void exportWeights(Session &session, const NamedTensors &tensors, const std::string &path,
                   const ExportOptions &options);
/// Returns the total size of the tensors that `exportWeights` writes.
int64_t countExportedBytes(Session &session, const NamedTensors &tensors, const std::string &path,
                           const ExportOptions &options);
/// Fails with BadArgument if `only` (of ExportOptions) matches no tensor.
void checkExportOnly(const Program &program, const NamedTensors &tensors, const std::string &only);
/// Sets a scalar and the scalars of its groups ("lr" also sets "lr.0", "lr.1", ...). "step" cannot
/// be set.
void setScalars(Session &session, const std::string &name, double value);
/// Sets the learning rate of the optimizer groups whose parameters match `glob`. Fails if only some
/// parameters of a group match.
void setRates(Session &session, const std::string &glob, double value);

} // namespace psrt

#endif
