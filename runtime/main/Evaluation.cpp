// Running @evaluate over data.
#include "runtime/main/Evaluation.h"
#include "runtime/data/Safetensors.h"
#include "runtime/main/Parts.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

namespace psrt {

SampleOrder makeOrder(const Session &session, const std::string &entry, const SampleSource &source,
                      int64_t microBatches, bool mayFillUp) {
  std::vector<const Input *> inputs = session.inputsOf(session.entry(entry));
  SampleOrder order;
  order.samples = source.samples();
  order.microBatches = microBatches;
  order.rows = batchRows(inputs);
  order.canIgnore = mayFillUp || session.getProgram().ignoresRowsIn(entry);
  if (order.samples == 0)
    PSRT_FAIL(BadInput, "the data has no sample");
  if (order.stepsPerEpoch() == 0)
    PSRT_FAIL(BadInput,
              "the data has %lld samples, a step takes %lld, and samples that only fill it up would "
              "count in the loss; give more data or compile with a smaller --batch",
              (long long)order.samples, (long long)(order.microBatches * order.rows));
  return order;
}

void noteLeftOut(const Session &session, const SampleOrder &order, const char *data) {
  int64_t perStep = order.microBatches * order.rows, left = order.samples % perStep;
  if (!order.canIgnore && left && session.isFirst())
    std::fprintf(
        stderr,
        "note: the last %lld of the %lld samples of %s are left out: a step takes %lld, and "
        "samples that only fill it up would count in the loss\n",
        (long long)left, (long long)order.samples, data, (long long)perStep);
}

/// Of the outputs of @evaluate that hold a part of the loss each: "loss.sum", "loss.sum.1", ...
static const std::string kLossSum = "loss.sum", kLossCount = "loss.count";

/// What follows `prefix` in an output's name when that is the prefix itself or has a number behind.
static std::optional<std::string> suffixOf(const std::string &output, const std::string &prefix) {
  if (output.rfind(prefix, 0) != 0)
    return std::nullopt;
  std::string suffix = output.substr(prefix.size());
  return suffix.empty() || suffix[0] == '.' ? std::optional(suffix) : std::nullopt;
}

/// Without a loss, rows that only fill up a batch change nothing: their outputs are left out.
static bool hasLoss(const EntryPoint &entry) {
  return std::any_of(entry.outputs.begin(), entry.outputs.end(), [](const Output &output) {
    return suffixOf(output.name, kLossSum).has_value();
  });
}

Evaluator::Evaluator(Session &session, const SampleSource &source, int64_t maxSteps)
    : session(session), source(source), entry(session.entry("evaluate")),
      order(makeOrder(session, "evaluate", source, 1,
                      !hasLoss(entry) || session.getProgram().hasRowSums)) {
  steps = order.stepsPerEpoch();
  if (maxSteps > 0)
    steps = std::min(steps, maxSteps);
  if (steps == order.stepsPerEpoch())
    noteLeftOut(session, order, "the evaluation data");
  session.prepare("evaluate");
  for (const Output &output : entry.outputs)
    if (std::optional<std::string> suffix = suffixOf(output.name, kLossSum))
      parts.push_back(*suffix);
}

template <typename SampleOf> Evaluator::Sums Evaluator::runBatch(SampleOf sampleOf) {
  session.writeInputs(entry, source, 1, [&](int64_t, int64_t row) { return sampleOf(row); });
  session.run(entry);
  Sums sums;
  for (const std::string &suffix : parts) {
    sums.push_back(readOutput(kLossSum + suffix));
    sums.push_back(readOutput(kLossCount + suffix));
  }
  return sums;
}

/// The sums of `count` samples from `first` on, fewer than a batch has rows, where no row can be
/// ignored. A batch of them again and again has their sums several times, and those of its last
/// rows, which are fewer, in turn. 5 of 8 rows: S(0..4) = B(0,1,2,3,4,0,1,2) - S(0..2), and
/// S(0..2) = (B(0,1,2,0,1,2,0,1) - S(0..1)) / 2, and S(0..1) = B(0,1,0,1,0,1,0,1) / 4.
/// Outputs are collected as those of `step`.
Evaluator::Sums Evaluator::addUpRest(int64_t first, int64_t count, std::optional<int64_t> step) {
  Sums sums = runBatch([&](int64_t row) { return first + row % count; });
  if (step)
    collect(*step);
  if (int64_t left = order.rows % count) {
    Sums others = addUpRest(first, left, std::nullopt);
    for (size_t i = 0; i < sums.size(); ++i)
      sums[i] -= others[i];
  }
  for (double &sum : sums)
    sum /= double(order.rows / count);
  return sums;
}

double Evaluator::run() {
  Sums total(2 * parts.size(), 0.0);
  bool ignores = session.getProgram().ignoresRowsIn("evaluate") || parts.empty();
  badStep = -1;
  for (int64_t step = 0; step < steps; ++step) {
    int64_t first = step * order.rows, left = order.samples - first;
    Sums sums;
    if (ignores || left >= order.rows) {
      sums = runBatch([&](int64_t row) { return order.sample(step, 0, row); });
      collect(step);
    } else {
      sums = addUpRest(first, left, step);
    }
    for (size_t i = 0; i < sums.size(); ++i)
      total[i] += sums[i];
    auto isFinite = [](double sum) { return std::isfinite(sum); };
    if (badStep < 0 && !std::all_of(sums.begin(), sums.end(), isFinite))
      badStep = step;
  }
  if (parts.empty() || total[1] == 0)
    return NAN;
  double loss = 0;
  for (size_t i = 0; i < total.size(); i += 2)
    loss += total[i + 1] != 0 ? total[i] / total[i + 1] : 0;
  return std::isnan(loss) ? NAN : loss; // without a sign, which is printed
}

void Evaluator::checkLoss(double loss) const {
  if (std::isfinite(loss))
    return;
  const char *is = std::isnan(loss) ? "nan" : "infinite";
  if (badStep < 0)
    PSRT_FAIL(BadInput,
              "the eval loss is %s: no label of the %lld samples counts; give data with labels", is,
              (long long)samples());
  int64_t first = badStep * order.rows, end = std::min(first + order.rows, order.samples);
  std::vector<int64_t> batch(end - first);
  std::iota(batch.begin(), batch.end(), first);
  std::string input = findBadInput(session, entry, source, batch);
  PSRT_FAIL(BadInput, "the eval loss is %s, first in batch %lld (samples %lld to %lld)%s", is,
            (long long)badStep, (long long)first, (long long)(end - 1),
            input.empty() ? "; its inputs are finite: give other weights (--weights or --load)"
                          : (": " + input + " is nan or infinite; mend the data").c_str());
}

void Evaluator::collectOutputs(const std::vector<std::string> &names) {
  for (const Output &candidate : entry.outputs) {
    bool wanted = names.empty() && !suffixOf(candidate.name, kLossSum) &&
                  !suffixOf(candidate.name, kLossCount);
    for (const std::string &name : names)
      wanted |= name == candidate.name;
    if (wanted)
      collected.push_back({&candidate, {}});
  }
  for (const std::string &name : names)
    find(name);
}

void Evaluator::writeOutputs(const std::string &path) {
  if (!session.isFirst())
    return;
  SafetensorsWriter writer;
  for (const Collected &item : collected) {
    std::vector<int64_t> shape = item.output->placement.shape;
    int64_t bytes = int64_t(item.data.size());
    if (isRows(*item.output)) {
      bytes = bytes / (steps * order.rows) * samples(); // rows that were only padding are left out
      shape[0] = samples();
    }
    writer.add(item.output->name, item.output->dtype, shape,
               [&item, bytes](char *data) { std::memcpy(data, item.data.data(), bytes); });
  }
  writer.write(path);
}

bool Evaluator::isRows(const Output &output) const {
  return !output.placement.shape.empty() && output.placement.shape[0] == order.rows;
}

void Evaluator::collect(int64_t step) {
  for (Collected &item : collected) {
    int64_t bytes = item.output->placement.count() * dtypeSize(item.output->dtype);
    int64_t at = isRows(*item.output) ? step * bytes : 0;
    if (session.isFirst())
      item.data.resize(at + bytes);
    session.gather(*item.output, session.isFirst() ? item.data.data() + at : nullptr);
  }
}

const Output &Evaluator::find(const std::string &name) const {
  for (const Output &output : entry.outputs)
    if (output.name == name)
      return output;
  std::string names;
  for (const Output &output : entry.outputs)
    names += (names.empty() ? "" : ", ") + output.name;
  PSRT_FAIL(BadArgument, "the model has no output \"%s\"; it has: %s", name.c_str(), names.c_str());
}

double Evaluator::readOutput(const std::string &name) {
  for (const Output &output : entry.outputs) {
    if (output.name != name)
      continue;
    double wide = 0;
    float narrow = 0;
    bool isWide = output.dtype == Dtype::F64;
    session.gatherEverywhere(output, isWide ? reinterpret_cast<char *>(&wide)
                                            : reinterpret_cast<char *>(&narrow));
    return isWide ? wide : narrow;
  }
  return 0;
}

void evaluateOnly(Session &session, const Flags &flags) {
  DataOptions options = flags.data;
  options.files = flags.evalData.empty() ? flags.data.files : flags.evalData;
  if (options.files.empty())
    PSRT_FAIL(BadArgument, "--eval needs --eval-data");
  auto source = openData(session.getProgram(), options);
  Evaluator evaluator(session, *source, flags.evalSteps);
  if (!flags.outputs.empty())
    evaluator.collectOutputs(flags.outputNames);
  double loss = evaluator.run();
  if (evaluator.computesLoss() && session.isFirst())
    std::printf("eval loss %.9g over %lld samples\n", loss, (long long)evaluator.samples());
  if (!flags.outputs.empty())
    evaluator.writeOutputs(flags.outputs);
  if (!flags.outputs.empty())
    sayWritten(session, flags, flags.outputs);
  if (evaluator.computesLoss())
    evaluator.checkLoss(loss);
}

} // namespace psrt
