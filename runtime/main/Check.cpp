// Implements --check: runs the first step on one rank and on the mesh from the same weights and
// data, and compares the results tensor by tensor.
#include "runtime/main/Parts.h"
#include <cmath>
#include <cstring>
#include <optional>

namespace psrt {
namespace {

constexpr double lossTolerance = 1e-5, gradientTolerance = 1e-3, updateTolerance = 5e-3;
/// A gradient element is rounding noise if it is smaller than `noise` times the largest gradient
/// element, and differs between mesh and one rank by more than `agreement` times its size. Example:
/// the gradient of an attention's key bias. An optimizer that divides by the gradient's size, such
/// as Adam, turns noise into full updates. Therefore the updates of these elements are not
/// compared.
constexpr double noise = 1e-6, agreement = 0.05;

using Values = std::vector<float>;

/// The largest relative difference so far, and the name of the tensor that has it.
struct Worst {
  double value = 0;
  std::string name = "none";
  void see(double candidate, const std::string &of) {
    if (candidate > value || std::isnan(candidate))
      value = std::isnan(candidate) ? INFINITY : candidate, name = of;
  }
};

/// Runs the first step of one program and keeps the tensors to compare.
struct FirstStep {
  double loss = 0;
  std::map<std::string, Values> gradients, before, after;

  FirstStep(Session &session, const SampleSource &source) {
    NamedTensors tensors(session.getProgram());
    const EntryPoint &entry = session.entry(EntryKind::Step);
    int64_t microBatches = session.getProgram().microBatches,
            rows = batchRows(session.inputsOf(entry));
    session.writeInputs(entry, source, microBatches, [&](int64_t m, int64_t row) {
      int64_t sample = m * rows + row;
      return sample < source.samples() ? sample : sample % source.samples();
    });
    session.run(entry, 0, false, Extent::BeforeUpdate);
    StepGradients step = readLossBeforeUpdate(session);
    loss = step.loss;
    for (const NamedTensor &tensor : tensors.all()) {
      if (tensor.dtype != Dtype::F32)
        continue;
      Values values(tensor.bytes() / 4);
      if (tensor.kind == VariableKind::Gradient) {
        readGradient(session, tensor, step.divisor, reinterpret_cast<char *>(values.data()));
        gradients[tensor.name.substr(5)] = std::move(values);
      } else if (tensor.kind == VariableKind::Parameter) {
        readTensor(session, tensor, reinterpret_cast<char *>(values.data()));
        before[tensor.name] = std::move(values);
      }
    }
    session.run(entry, 0, false, Extent::Update);
    for (const NamedTensor &tensor : tensors.all())
      if (tensor.dtype == Dtype::F32 && tensor.kind == VariableKind::Parameter) {
        Values &values = after[tensor.name];
        values.resize(tensor.bytes() / 4);
        readTensor(session, tensor, reinterpret_cast<char *>(values.data()));
      }
  }
};

double norm(const Values &values) {
  double sum = 0;
  for (double x : values)
    sum += x * x;
  return std::sqrt(sum);
}

/// Returns |a - b| / |b| in the 2-norm; 0 if a equals b, and infinity if the sizes differ.
double relative(const Values &a, const Values &b) {
  double difference = 0;
  if (a.size() != b.size())
    return INFINITY;
  for (size_t i = 0; i < a.size(); ++i)
    difference += (double(a[i]) - b[i]) * (double(a[i]) - b[i]);
  double size = norm(b);
  return difference == 0 ? 0 : std::sqrt(difference) / (size > 0 ? size : 1e-30);
}

Values subtract(const Values &a, const Values &b) {
  Values result(a.size());
  for (size_t i = 0; i < a.size(); ++i)
    result[i] = a[i] - b[i];
  return result;
}

/// Returns the largest absolute value of any gradient element.
double largestOf(const std::map<std::string, Values> &gradients) {
  double largest = 0;
  for (const auto &[name, gradient] : gradients)
    for (double x : gradient)
      largest = std::max(largest, std::fabs(x));
  return largest;
}

/// The updates of a parameter, without the elements whose gradient is rounding noise. `noisy` is
/// the number of omitted elements.
struct Updates {
  Values mesh, one;
  int64_t noisy = 0;

  Updates(const FirstStep &onMesh, const FirstStep &onOne, const std::string &name,
          double smallest) {
    const Values &gradient = onMesh.gradients.at(name), &expected = onOne.gradients.at(name);
    Values all = subtract(onMesh.after.at(name), onMesh.before.at(name));
    Values allExpected = subtract(onOne.after.at(name), onOne.before.at(name));
    for (size_t i = 0; i < all.size(); ++i) {
      double size = std::fabs(expected[i]);
      if (size < smallest && std::fabs(gradient[i] - expected[i]) > agreement * size) {
        ++noisy;
        continue;
      }
      mesh.push_back(all[i]);
      one.push_back(allExpected[i]);
    }
  }
};

int report(const FirstStep &mesh, const FirstStep &one) {
  double lossDifference = std::fabs(mesh.loss - one.loss) / std::max(1e-30, std::fabs(one.loss));
  double smallest = noise * largestOf(one.gradients);
  Worst gradient, update;
  int64_t noisy = 0;
  for (const auto &[name, expected] : one.gradients) {
    auto it = mesh.gradients.find(name);
    if (it == mesh.gradients.end() || it->second.size() != expected.size()) {
      gradient.see(INFINITY, name);
      continue;
    }
    if (norm(expected) >= smallest * std::sqrt(double(expected.size())))
      gradient.see(relative(it->second, expected), name);
    if (one.after.contains(name) && mesh.after.contains(name)) {
      Updates updates(mesh, one, name, smallest);
      update.see(relative(updates.mesh, updates.one), name);
      noisy += updates.noisy;
    }
  }
  std::printf("loss            %.9g on the mesh, %.9g on one rank: relative difference %.3g (at "
              "most %.0e)\n",
              mesh.loss, one.loss, lossDifference, lossTolerance);
  std::printf("worst gradient  %.3g (at most %.0e)  %s\n", gradient.value, gradientTolerance,
              gradient.name.c_str());
  std::printf("worst update    %.3g (at most %.0e)  %s\n", update.value, updateTolerance,
              update.name.c_str());
  if (noisy)
    std::printf("the updates of %lld elements are not compared: their gradient is rounding noise\n",
                (long long)noisy);
  bool good = lossDifference <= lossTolerance && gradient.value <= gradientTolerance &&
              update.value <= updateTolerance;
  std::printf("%s\n", good ? "check passed"
                           : "check FAILED: the mesh does not compute what one rank computes");
  return good ? 0 : 1;
}

} // namespace

int check(Session &session, const ProgramSource &oneRank, const Flags &flags) {
  if (!oneRank.json)
    PSRT_FAIL(BadArgument, "--check needs the one-rank program, which is not in this program; "
                           "compile with ps-compile --check");
  if (flags.data.files.empty())
    PSRT_FAIL(BadArgument, "--check needs --data FILE for the first step");
  auto source = openData(session.getProgram(), flags.data);
  if (!session.isFirst()) {
    FirstStep mesh(session, *source);
    return 0;
  }
  SessionOptions options;
  options.seed = flags.seed;
  options.threads = flags.threads;
  std::optional<WeightFiles> weights;
  if (!flags.weights.empty())
    options.given = weights.emplace(flags.weights).names();
  Session single(oneRank, options);
  if (weights)
    loadWeights(single, NamedTensors(single.getProgram()), *weights);
  applySettings(single, flags);
  FirstStep one(single, *source), mesh(session, *source);
  return report(mesh, one);
}

} // namespace psrt
