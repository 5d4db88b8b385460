// Runs the entry `evaluate` over a data set.
#include "runtime/main/Evaluation.h"
#include "runtime/data/Safetensors.h"
#include "runtime/main/Parts.h"
#include "shared/PrintableText.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

namespace psrt {

SampleOrder makeOrder(const Session &session, EntryKind entry, const SampleSource &source,
                      int64_t microBatches, bool mayFillUp) {
  std::vector<const Input *> inputs = session.inputsOf(session.entry(entry));
  SampleOrder order;
  order.samples = source.samples();
  order.microBatches = microBatches;
  order.rows = batchRows(inputs);
  order.canIgnore = mayFillUp || session.getProgram().ignoresRowsIn(entry);
  if (order.samples == 0)
    PSRT_FAIL(BadInput, "the data has no samples");
  if (order.stepsPerEpoch() == 0)
    PSRT_FAIL(BadInput,
              "the data has %lld samples, a step takes %lld, and padding samples would count in "
              "the loss; give more data or compile with a smaller --batch",
              (long long)order.samples, (long long)(order.microBatches * order.rows));
  return order;
}

void noteSkippedSamples(const Session &session, const SampleOrder &order, const char *data) {
  int64_t perStep = order.microBatches * order.rows, skipped = order.samples % perStep;
  if (!order.canIgnore && skipped && session.isFirst())
    std::fprintf(
        stderr,
        "note: the last %lld of the %lld samples of %s are skipped: a step takes %lld, and padding "
        "samples would count in the loss\n",
        (long long)skipped, (long long)order.samples, data, (long long)perStep);
}

void noteUnreadTensors(const Session &session, const SampleSource &source, const char *data) {
  std::vector<std::string> names = source.unread();
  std::string text;
  for (size_t i = 0; i < names.size() && i < 5; ++i)
    text += (i ? ", \"" : "\"") + names[i] + "\"";
  if (names.size() > 5)
    text += format(" and %zu more", names.size() - 5);
  if (!names.empty() && session.isFirst())
    std::fprintf(stderr, "note: %s has %s, which the model does not read\n", data,
                 parashard::escapeControls(text).c_str());
}

/// Names of the outputs from which the loss is computed. Further parts of the loss have a suffix:
/// "loss.sum.1".
static const std::string kLossSum = "loss.sum", kLossCount = "loss.count", kLossPlus = "loss.plus",
                         kLossLeast = "loss.least";

/// Returns the rest of an output's name after `prefix`: "" for the prefix itself, ".1" for
/// "PREFIX.1". Returns nullopt for any other name.
static std::optional<std::string> suffixOf(const std::string &output, const std::string &prefix) {
  if (!output.starts_with(prefix))
    return std::nullopt;
  std::string suffix = output.substr(prefix.size());
  return suffix.empty() || suffix[0] == '.' ? std::optional(suffix) : std::nullopt;
}

/// Returns whether an output is a part of the loss or of the loss's count.
static bool isOfLoss(const Output &output) {
  const std::string *names[] = {&kLossSum, &kLossCount, &kLossPlus, &kLossLeast};
  return std::any_of(std::begin(names), std::end(names), [&](const std::string *name) {
    return suffixOf(output.name, *name).has_value();
  });
}

/// Returns whether the entry computes a loss. Without a loss, padding rows are harmless, since
/// their outputs are dropped.
static bool hasLoss(const EntryPoint &entry) {
  return std::any_of(entry.outputs.begin(), entry.outputs.end(), [](const Output &output) {
    return suffixOf(output.name, kLossSum).has_value();
  });
}

Evaluator::Evaluator(Session &session, const SampleSource &source, int64_t maxSteps)
    : session(session), source(source), entry(session.entry(EntryKind::Evaluate)),
      order(makeOrder(session, EntryKind::Evaluate, source, 1,
                      !hasLoss(entry) || session.getProgram().hasRowSums)) {
  steps = order.stepsPerEpoch();
  if (maxSteps > 0)
    steps = std::min(steps, maxSteps);
  if (steps == order.stepsPerEpoch())
    noteSkippedSamples(session, order, "the evaluation data");
  session.prepare(EntryKind::Evaluate);
  for (const Output &output : entry.outputs)
    if (std::optional<std::string> suffix = suffixOf(output.name, kLossSum))
      parts.push_back({*suffix});
}

template <typename SampleOf> Evaluator::Sums Evaluator::runBatch(SampleOf sampleOf) {
  readTogether(session, [&] {
    session.writeInputs(entry, source, 1, [&](int64_t, int64_t row) { return sampleOf(row); });
  });
  session.run(entry);
  Sums sums;
  for (Part &part : parts) {
    sums.push_back(*readOutput(kLossSum + part.suffix));
    sums.push_back(readOutput(kLossCount + part.suffix).value_or(0));
    part.plus = readOutput(kLossPlus + part.suffix).value_or(part.plus);
    part.least = readOutput(kLossLeast + part.suffix).value_or(part.least);
  }
  return sums;
}

/// Returns the sums over `count` samples, starting at sample `first`. Used if rows cannot be
/// ignored and `count` is less than the number of rows of a batch. The batch repeats the samples.
/// Its sums are a multiple of the wanted sums plus the sums over a shorter range, which are
/// computed recursively. Example with 5 samples and 8 rows, where S is a wanted sum and B the sum
/// of a batch:
///   S(0..4) = B(0,1,2,3,4,0,1,2) - S(0..2)
///   S(0..2) = (B(0,1,2,0,1,2,0,1) - S(0..1)) / 2
///   S(0..1) = B(0,1,0,1,0,1,0,1) / 4
/// If `step` is set, collects the outputs of the first batch as the outputs of this step.
Evaluator::Sums Evaluator::addUpRest(int64_t first, int64_t count, std::optional<int64_t> step) {
  Sums sums = runBatch([&](int64_t row) { return first + row % count; });
  if (step)
    collect(*step);
  if (int64_t left = order.rows % count) {
    Sums remainder = addUpRest(first, left, std::nullopt);
    for (size_t i = 0; i < sums.size(); ++i)
      sums[i] -= remainder[i];
  }
  int64_t rounds = order.rows / count;
  for (double &sum : sums)
    sum /= double(rounds);
  return sums;
}

double Evaluator::run() {
  Sums total(2 * parts.size(), 0.0);
  bool ignores = session.getProgram().ignoresRowsIn(EntryKind::Evaluate) || parts.empty();
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
  for (size_t i = 0; i < parts.size(); ++i)
    total[2 * i + 1] = std::max(total[2 * i + 1] + parts[i].plus, parts[i].least);
  if (parts.empty() || total[1] == 0)
    return NAN;
  double loss = 0;
  for (size_t i = 0; i < total.size(); i += 2)
    loss += total[i + 1] != 0 ? total[i] / total[i + 1] : 0;
  return std::isnan(loss) ? NAN : loss; // a negative NaN would be printed as -nan
}

void Evaluator::checkLoss(double loss) const {
  if (std::isfinite(loss))
    return;
  const char *is = std::isnan(loss) ? "nan" : "infinite";
  if (badStep < 0)
    PSRT_FAIL(
        BadInput,
        "the eval loss is %s: all labels of the %lld samples are ignored or masked; give data "
        "with other labels",
        is, (long long)samples());
  int64_t first = badStep * order.rows, end = std::min(first + order.rows, order.samples);
  std::vector<int64_t> batch(end - first);
  std::iota(batch.begin(), batch.end(), first);
  std::string input = findBadInput(session, entry, source, batch);
  PSRT_FAIL(BadInput, "the eval loss is %s, first in batch %lld (samples %lld to %lld)%s", is,
            (long long)badStep, (long long)first, (long long)(end - 1),
            input.empty() ? "; its inputs are finite: give other weights (--weights or --load)"
                          : (": " + input + " is nan or infinite; fix the data").c_str());
}

/// Returns whether an output has one value per batch although the data is not exactly one batch.
bool Evaluator::isOfBatch(const Output &output) const {
  bool isWhole = output.placement.shape.empty() || output.batchDim == Output::kWholeBatch;
  return isWhole && samples() != order.rows;
}

/// Returns whether an output looks as if it had one row per sample, but does not depend on the
/// batch: one of its dims has the size of a batch. Such an output is written once, and a note
/// explains it.
bool Evaluator::mayBeOfSamples(const Output &output) const {
  const std::vector<int64_t> &shape = output.placement.shape;
  return output.batchDim == Output::kNoBatch && order.rows > 1 && samples() != order.rows &&
         std::find(shape.begin(), shape.end(), order.rows) != shape.end();
}

static void append(std::string &list, const std::string &name) {
  list += (list.empty() ? "\"" : ", \"") + name + "\"";
}

void Evaluator::collectOutputs(const std::vector<std::string> &names) {
  std::string skipped, once;
  for (const Output &output : entry.outputs)
    if (names.empty() && !isOfLoss(output)) {
      if (isOfBatch(output))
        append(skipped, output.name);
      else
        collected.push_back({&output, {}});
    }
  for (const std::string &name : names) {
    const Output &output = find(name);
    if (std::any_of(collected.begin(), collected.end(),
                    [&](const Collected &item) { return item.output == &output; }))
      continue;
    if (isOfBatch(output))
      PSRT_FAIL(
          BadArgument,
          "--output %s: this output has one value per batch, not per sample, and the %lld samples "
          "are not exactly one batch of %lld; give data of one batch, or --eval-steps 1",
          name.c_str(), (long long)samples(), (long long)order.rows);
    collected.push_back({&output, {}});
  }
  if (!skipped.empty() && session.isFirst())
    std::fprintf(stderr,
                 "note: --outputs omits outputs with one value per batch, not per sample: %s; use "
                 "--eval-steps 1 to write their values for the first batch\n",
                 skipped.c_str());
  for (const Collected &item : collected)
    if (mayBeOfSamples(*item.output))
      append(once, item.output->name);
  if (!once.empty() && session.isFirst())
    std::fprintf(
        stderr,
        "note: --outputs writes %s once, with a dim of %lld (the batch size), because it does "
        "not depend on the samples\n",
        once.c_str(), (long long)order.rows);
}

/// The layout of an output as consecutive blocks, one for each index of the dims before the batch
/// dim. Example: shape [2, 8, 3] with batch dim 1 has 2 blocks of 8 * 3 elements.
struct Blocks {
  int64_t count = 1; ///< number of blocks per batch
  int64_t bytes = 0; ///< bytes per block
  explicit Blocks(const Output &output) {
    const std::vector<int64_t> &shape = output.placement.shape;
    for (int64_t d = 0; d < output.batchDim; ++d)
      count *= shape[d];
    bytes = output.placement.count() * dtypeSize(output.dtype) / count;
  }
};

static bool hasSamples(const Output &output) {
  return !output.placement.shape.empty() && output.batchDim >= 0;
}

void Evaluator::collect(int64_t step) {
  for (Collected &item : collected) {
    Blocks blocks(*item.output);
    int64_t batches = hasSamples(*item.output) ? steps : 1;
    int64_t at = hasSamples(*item.output) ? step * blocks.bytes : 0;
    std::vector<char> batch;
    if (session.isFirst()) {
      batch.resize(blocks.count * blocks.bytes);
      item.data.resize(batches * batch.size());
    }
    session.gather(*item.output, session.isFirst() ? batch.data() : nullptr);
    for (int64_t i = 0; session.isFirst() && i < blocks.count; ++i)
      std::memcpy(item.data.data() + i * batches * blocks.bytes + at,
                  batch.data() + i * blocks.bytes, blocks.bytes);
  }
}

void Evaluator::writeOutputs(const std::string &path) {
  if (!session.isFirst())
    return;
  SafetensorsWriter writer;
  for (const Collected &item : collected) {
    std::vector<int64_t> shape = item.output->placement.shape;
    Blocks blocks(*item.output);
    int64_t stride = int64_t(item.data.size()) / blocks.count, bytes = stride;
    if (hasSamples(*item.output)) { // drop padding rows
      bytes = blocks.bytes / order.rows * samples();
      shape[item.output->batchDim] = shape[item.output->batchDim] / order.rows * samples();
    }
    writer.add(item.output->name, item.output->dtype, shape, [=, &item](char *data) {
      for (int64_t i = 0; i < blocks.count; ++i)
        std::memcpy(data + i * bytes, item.data.data() + i * stride, bytes);
    });
  }
  writer.write(path);
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

std::optional<double> Evaluator::readOutput(const std::string &name) {
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
  return std::nullopt;
}

/// Returns whether the program was compiled with --inference. A scalar output of such a program
/// need not be a loss, so it is not checked.
static bool onlyEvaluates(const Program &program) {
  return !program.entry(EntryKind::Step) && !program.entry(EntryKind::Update);
}

void evaluateOnly(Session &session, const Flags &flags) {
  DataOptions options = flags.data;
  if (!flags.evalData.empty()) {
    options.files = flags.evalData;
    options.flag = "--eval-data";
  }
  if (options.files.empty())
    PSRT_FAIL(BadArgument, "--eval has no data to evaluate; give --eval-data FILE or --data FILE");
  auto source = openData(session.getProgram(), options);
  noteUnreadTensors(session, *source, "the evaluation data");
  Evaluator evaluator(session, *source, flags.evalSteps);
  if (!flags.outputs.empty())
    evaluator.collectOutputs(flags.outputNames);
  double loss = evaluator.run();
  if (evaluator.computesLoss() && session.isFirst())
    std::printf("eval loss %.9g over %lld samples\n", loss, (long long)evaluator.samples());
  if (!flags.outputs.empty())
    evaluator.writeOutputs(flags.outputs);
  if (!flags.outputs.empty())
    reportWritten(session, flags, flags.outputs);
  if (evaluator.computesLoss() && !onlyEvaluates(session.getProgram()))
    evaluator.checkLoss(loss);
}

} // namespace psrt
