// Whole tensors by the model's names: variables, aliases, gradients, and tensors that several
// variables are parts of.
#ifndef PSRT_SESSION_NAMEDTENSORS_H
#define PSRT_SESSION_NAMEDTENSORS_H

#include "runtime/data/WeightFiles.h"
#include "runtime/session/Session.h"
#include <map>
#include <set>

namespace psrt {

/// One tensor as files and users see it.
struct NamedTensor {
  std::string name;                 ///< the first one
  std::vector<std::string> aliases; ///< all names, the first included
  std::string kind;
  bool transient = false;
  bool isOfModel = false; ///< a tensor of the model, no state of training or of a precision
  Dtype dtype = Dtype::F32;
  std::vector<int64_t> shape;
  /// The variables that hold it; `lower` is empty for one that is the whole tensor.
  struct Part {
    int variable;
    std::vector<int64_t> lower;
  };
  std::vector<Part> parts;

  int64_t bytes() const;
};

class NamedTensors {
public:
  explicit NamedTensors(const Program &program);
  /// Parameters, buffers and the rest by their model names; then symbols of others; "grad.NAME" for
  /// gradients, "ema.NAME" for averages. Where the model has such a name itself, that is its
  /// tensor, the gradient is "grad.self.NAME", and the scale of the loss is "state.loss_scale".
  const NamedTensor *find(const std::string &name) const;
  /// The average of a parameter; null where it has none.
  const NamedTensor *findAverage(const NamedTensor &of) const;
  /// Fails, naming some that there are.
  const NamedTensor &get(const std::string &name) const;
  const std::vector<NamedTensor> &all() const { return tensors; }

private:
  void add(const Program &program, int variable, std::vector<std::string> names,
           const Variable &view);
  /// Returns a name that no tensor of the model has, for what belongs to its tensor `name` or, with
  /// an empty prefix, to the runtime. `more` is inserted until no tensor of the model has it.
  std::string derive(std::string prefix, const std::string &name, const char *more = "self.") const;
  std::vector<NamedTensor> tensors;
  std::set<std::string> modelNames;
  std::map<std::string, size_t> byName;
};

/// The kind of what an optimizer keeps for a parameter, as one tensor by the parameter's name
/// ("optimizer.adamw.mean.NAME"), whatever variables it is in parts.
inline constexpr const char *kOptimizerState = "optimizer state";

/// Whether a variable is what an optimizer keeps for each element of a parameter.
bool isStateOf(const Variable &variable, const Variable &parameter);

/// "f32 [4, 8]"
std::string describeTensor(Dtype dtype, const std::vector<int64_t> &shape);

void readTensor(Session &session, const NamedTensor &tensor, char *whole);
void writeTensor(Session &session, const NamedTensor &tensor, const char *whole);

/// Sets variables from files, by any of their names; every parameter must be there (under one of
/// them), and nothing else may be. Floats of another dtype are converted: the answer says which
/// ("FILE: 12 tensors of bf16 are converted to f32").
std::vector<std::string> loadWeights(Session &session, const NamedTensors &tensors,
                                     const WeightFiles &files);
/// How weights are written.
struct ExportOptions {
  int64_t maxFileBytes = 5'000'000'000; ///< of a file of a folder (one tensor at least)
  bool averages = false; ///< the average of each parameter that has one, in its place
  /// "trained": only parameters that are trained; another text: a glob of names; empty: all.
  std::string only;
  bool trained = false; ///< fail where an update has made a weight nan or infinite
};

/// Writes every persistent parameter and buffer, whole: to PATH.safetensors under each of its
/// names, else to a folder as Hugging Face lays it out, under the first one.
void exportWeights(Session &session, const NamedTensors &tensors, const std::string &path,
                   const ExportOptions &options);
/// The bytes of the tensors that `exportWeights` writes.
int64_t countExportedBytes(Session &session, const NamedTensors &tensors, const std::string &path,
                           const ExportOptions &options);
/// Fails with BadArgument where ExportOptions::only selects nothing.
void checkExportOnly(const Program &program, const NamedTensors &tensors, const std::string &only);
/// Sets a scalar, and the scalars of its groups ("lr" sets "lr.0", "lr.1", ... too); "step" is not
/// one.
void setScalars(Session &session, const std::string &name, double value);
/// Sets the learning rate of the optimizer groups whose parameters `glob` matches; one that it
/// matches in part is an error.
void setRates(Session &session, const std::string &glob, double value);

} // namespace psrt

#endif
