// --check: the first step on one rank and on the mesh, from the same weights and data, compared by
// name.
#include "runtime/main/Parts.h"
#include <cmath>
#include <cstring>

namespace psrt {
namespace {

constexpr double lossTolerance = 1e-5, gradientTolerance = 1e-3, updateTolerance = 5e-3;
/// A gradient below this share of the largest one is rounding noise: its update is not compared.
constexpr double noise = 1e-6;

using Values = std::vector<float>;

struct Worst {
  double value = 0;
  std::string name = "none";
  void see(double candidate, const std::string &of) {
    if (candidate > value || std::isnan(candidate))
      value = std::isnan(candidate) ? INFINITY : candidate, name = of;
  }
};

/// Runs one program's first step and keeps what is compared.
struct FirstStep {
  double loss = 0;
  std::map<std::string, Values> gradients, before, after;

  FirstStep(Session &session, const SampleSource &source) {
    NamedTensors tensors(session.getProgram());
    const EntryPoint &entry = session.entry("step");
    int64_t microBatches = session.getProgram().microBatches,
            rows = batchRows(session.inputsOf(entry));
    session.writeInputs(entry, source, microBatches, [&](int64_t m, int64_t row) {
      int64_t sample = m * rows + row;
      return sample < source.samples() ? sample : sample % source.samples();
    });
    session.run(entry, 0, false, 0, updateStart(entry));
    StepGradients step = readLossBeforeUpdate(session);
    loss = step.loss;
    for (const NamedTensor &tensor : tensors.all()) {
      if (tensor.dtype != Dtype::F32)
        continue;
      Values values(tensor.bytes() / 4);
      if (tensor.kind == "gradient") {
        readGradient(session, tensor, step.count, reinterpret_cast<char *>(values.data()));
        gradients[tensor.name.substr(5)] = std::move(values);
      } else if (tensor.kind == "parameter") {
        readTensor(session, tensor, reinterpret_cast<char *>(values.data()));
        before[tensor.name] = std::move(values);
      }
    }
    session.run(entry, 0, false, updateStart(entry));
    for (const NamedTensor &tensor : tensors.all())
      if (tensor.dtype == Dtype::F32 && tensor.kind == "parameter") {
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

/// |a - b| / |b|, 0 for two zeros.
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

double perElement(const Values &values) {
  return values.empty() ? 0 : norm(values) / std::sqrt(double(values.size()));
}

int report(const FirstStep &mesh, const FirstStep &one) {
  double lossDifference = std::fabs(mesh.loss - one.loss) / std::max(1e-30, std::fabs(one.loss));
  double largest = 0;
  for (const auto &[name, gradient] : one.gradients)
    largest = std::max(largest, perElement(gradient));
  Worst gradient, update;
  int skipped = 0;
  for (const auto &[name, expected] : one.gradients) {
    auto it = mesh.gradients.find(name);
    if (perElement(expected) < noise * largest) {
      ++skipped;
      continue;
    }
    gradient.see(it == mesh.gradients.end() ? INFINITY : relative(it->second, expected), name);
    if (one.after.count(name) && mesh.after.count(name))
      update.see(relative(subtract(mesh.after.at(name), mesh.before.at(name)),
                          subtract(one.after.at(name), one.before.at(name))),
                 name);
  }
  std::printf("loss            %.9g on the mesh, %.9g on one rank: relative difference %.3g (at "
              "most %.0e)\n",
              mesh.loss, one.loss, lossDifference, lossTolerance);
  std::printf("worst gradient  %.3g (at most %.0e)  %s\n", gradient.value, gradientTolerance,
              gradient.name.c_str());
  std::printf("worst update    %.3g (at most %.0e)  %s\n", update.value, updateTolerance,
              update.name.c_str());
  if (skipped)
    std::printf("%d parameters whose gradient is rounding noise are left out\n", skipped);
  bool good = lossDifference <= lossTolerance && gradient.value <= gradientTolerance &&
              update.value <= updateTolerance;
  std::printf("%s\n", good ? "check passed"
                           : "check FAILED: the mesh does not compute what one rank computes");
  return good ? 0 : 1;
}

} // namespace

int check(Session &session, const ProgramSource &oneRank, const Flags &flags) {
  if (!oneRank.json)
    PSRT_FAIL(
        BadArgument,
        "this program does not carry the one-rank program; compile it with ps-compile --check");
  if (flags.data.files.empty())
    PSRT_FAIL(BadArgument, "--check needs --data FILE for the first step");
  auto source = openData(session.getProgram(), flags.data);
  SessionOptions options;
  options.seed = flags.seed;
  options.threads = flags.threads;
  Session single(oneRank, options);
  for (Session *each : {&session, &single}) {
    NamedTensors tensors(each->getProgram());
    if (!flags.weights.empty() && each == &single)
      loadWeights(*each, tensors, flags.weights);
    if (each == &single)
      applySettings(*each, flags);
  }
  FirstStep one(single, *source), mesh(session, *source);
  return report(mesh, one);
}

} // namespace psrt
