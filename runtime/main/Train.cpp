// The training loop, evaluation, and what they write.
#include "runtime/data/OutputFile.h"
#include "runtime/data/WeightFiles.h"
#include "runtime/main/Parts.h"
#include "runtime/main/Progress.h"
#include "runtime/main/Schedule.h"
#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <optional>

namespace psrt {
namespace {

/// Set by SIGTERM: the step in progress is finished, then all is written.
std::atomic<bool> stopRequested{false};
void requestStop(int) { stopRequested = true; }

/// A text file that is written line by line, flushed by line so that it can be followed.
class LineFile {
public:
  explicit LineFile(const std::string &path) : path(path) {
    if (path.empty())
      return;
    file = std::fopen(path.c_str(), "w");
    if (!file)
      PSRT_FAIL(BadInput, "cannot write \"%s\": %s", path.c_str(), std::strerror(errno));
    std::setvbuf(file, nullptr, _IOLBF, 1 << 14);
  }
  ~LineFile() {
    if (file)
      std::fclose(file);
  }
  LineFile(const LineFile &) = delete;
  explicit operator bool() const { return file; }

  void write(const std::string &line) {
    if (file && (std::fputs(line.c_str(), file) < 0 || std::fputc('\n', file) < 0))
      PSRT_FAIL(BadInput, "cannot write \"%s\": %s", path.c_str(), std::strerror(errno));
  }

private:
  std::string path;
  std::FILE *file = nullptr;
};

SampleOrder makeOrder(const Session &session, const std::string &entry, const SampleSource &source,
                      int64_t microBatches) {
  std::vector<const Input *> inputs = session.inputsOf(session.entry(entry));
  SampleOrder order;
  order.samples = source.samples();
  order.microBatches = microBatches;
  order.rows = batchRows(inputs);
  order.canIgnore = canIgnoreRows(inputs);
  if (order.stepsPerEpoch() == 0)
    PSRT_FAIL(BadInput,
              "the data has %lld samples, a step takes %lld and the model cannot ignore rows; give "
              "more data or "
              "compile with a smaller --batch",
              (long long)order.samples, (long long)(order.microBatches * order.rows));
  return order;
}

//===--- evaluation -------------------------------------------------------===//

/// Of the outputs of @evaluate that hold a part of the loss each: "loss.sum", "loss.sum.1", ...
const std::string kLossSum = "loss.sum", kLossCount = "loss.count";

/// What follows `prefix` in an output's name when that is the prefix itself or has a number behind.
std::optional<std::string> suffixOf(const std::string &output, const std::string &prefix) {
  if (output.rfind(prefix, 0) != 0)
    return std::nullopt;
  std::string suffix = output.substr(prefix.size());
  return suffix.empty() || suffix[0] == '.' ? std::optional(suffix) : std::nullopt;
}

/// Runs @evaluate over data: the loss, and outputs collected along the batch dim.
class Evaluator {
public:
  Evaluator(Session &session, const SampleSource &source, int64_t maxSteps)
      : session(session), source(source), entry(session.entry("evaluate")),
        order(makeOrder(session, "evaluate", source, 1)) {
    steps = order.stepsPerEpoch();
    if (maxSteps > 0)
      steps = std::min(steps, maxSteps);
    session.prepare("evaluate");
    for (const Output &output : entry.outputs)
      if (std::optional<std::string> suffix = suffixOf(output.name, kLossSum))
        parts.push_back({*suffix});
  }

  /// The sum of its parts, each a sum over all batches divided by its count.
  double run() {
    for (Part &part : parts)
      part.sum = part.count = 0;
    for (int64_t step = 0; step < steps; ++step) {
      session.writeInputs(entry, source, 1,
                          [&](int64_t, int64_t row) { return order.sample(step, 0, row); });
      session.run(entry);
      for (Part &part : parts) {
        part.sum += output(kLossSum + part.suffix);
        part.count += output(kLossCount + part.suffix);
      }
      collect(step);
    }
    if (parts.empty() || parts.front().count == 0)
      return NAN;
    double loss = 0;
    for (const Part &part : parts)
      loss += part.count != 0 ? part.sum / part.count : 0;
    return loss;
  }

  int64_t samples() const { return std::min(order.samples, steps * order.rows); }

  void collectOutputs(const std::vector<std::string> &names) {
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

  void writeOutputs(const std::string &path) {
    if (!session.isFirst())
      return;
    SafetensorsWriter writer;
    for (const Collected &item : collected) {
      std::vector<int64_t> shape = item.output->placement.shape;
      int64_t bytes = int64_t(item.data.size());
      if (isRows(*item.output)) {
        bytes =
            bytes / (steps * order.rows) * samples(); // rows that were only padding are left out
        shape[0] = samples();
      }
      writer.add(item.output->name, item.output->dtype, shape,
                 [&item, bytes](char *data) { std::memcpy(data, item.data.data(), bytes); });
    }
    writer.write(path);
  }

private:
  struct Part {
    std::string suffix; ///< of its outputs' names
    double sum = 0, count = 0;
  };
  struct Collected {
    const Output *output;
    std::vector<char> data;
  };
  bool isRows(const Output &output) const {
    return !output.placement.shape.empty() && output.placement.shape[0] == order.rows;
  }

  void collect(int64_t step) {
    for (Collected &item : collected) {
      int64_t bytes = item.output->placement.count() * dtypeSize(item.output->dtype);
      int64_t at = isRows(*item.output) ? step * bytes : 0;
      if (session.isFirst())
        item.data.resize(at + bytes);
      session.gather(item.output->dtype, item.output->placement, item.output->address,
                     session.isFirst() ? item.data.data() + at : nullptr);
    }
  }

  const Output &find(const std::string &name) const {
    for (const Output &output : entry.outputs)
      if (output.name == name)
        return output;
    std::string names;
    for (const Output &output : entry.outputs)
      names += (names.empty() ? "" : ", ") + output.name;
    PSRT_FAIL(BadArgument, "the model has no output \"%s\"; it has: %s", name.c_str(),
              names.c_str());
  }

  double output(const std::string &name) {
    for (const Output &output : entry.outputs)
      if (output.name == name && output.dtype == Dtype::F32) {
        float value = 0;
        session.gatherEverywhere(output.dtype, output.placement, output.address,
                                 reinterpret_cast<char *>(&value));
        return value;
      }
    return 0;
  }

  Session &session;
  const SampleSource &source;
  const EntryPoint &entry;
  SampleOrder order;
  int64_t steps = 0;
  std::vector<Part> parts;
  std::vector<Collected> collected;
};

//===--- training ---------------------------------------------------------===//

/// Of the accumulators of further scalar outputs.
const std::string kOutputPrefix = "output.";

class Trainer {
public:
  Trainer(Session &session, const NamedTensors &tensors, const Flags &flags,
          const SampleSource &source, Evaluator *evaluator)
      : session(session), tensors(tensors), flags(flags), source(source), evaluator(evaluator),
        entry(session.entry("step")),
        order(makeOrder(session, "step", source, session.getProgram().microBatches)),
        total(flags.steps ? *flags.steps : flags.epochs.value_or(1) * order.stepsPerEpoch()),
        schedule(flags.schedule, total),
        progress(total, order.microBatches * order.rows, flags.quiet, session.isFirst()),
        losses(session.isFirst() ? flags.losses : ""), log(session.isFirst() ? flags.log : "") {
    order.shuffle = flags.shuffle;
    order.seed = flags.seed;
    for (const Variable &variable : session.getProgram().variables)
      if (variable.kind == "scalar" &&
          (variable.symbol == "lr" || variable.symbol.rfind("lr.", 0) == 0))
        rates.push_back({variable.symbol, session.readScalar(variable.symbol)});
    for (const Variable &variable : session.getProgram().variables)
      if (variable.kind == "accumulator" && variable.symbol.rfind(kOutputPrefix, 0) == 0)
        scalars.push_back({variable.symbol.substr(kOutputPrefix.size()), variable.symbol});
    session.prepare("step");
  }

  void run() {
    bool stopped = session.isAny(stopRequested);
    for (; session.step < total && !stopped; stopped = session.isAny(stopRequested)) {
      int64_t step = session.step;
      double start = steadySeconds();
      for (const auto &[name, base] : rates)
        session.setScalar(name, base * schedule.factor(step));
      runStep(step);
      finishStep(step, steadySeconds() - start);
    }
    if (stopped && evaluator && evaluatedAt != session.step)
      evaluate();
  }

private:
  void runStep(int64_t step) {
    const Program &program = session.getProgram();
    session.writeInputs(entry, source, program.microBatches,
                        [&](int64_t m, int64_t row) { return order.sample(step, m, row); });
    if (step != 0 || flags.gradients.empty()) {
      session.run(entry);
      return;
    }
    int64_t update = updateStart(entry);
    session.run(entry, 0, false, 0, update);
    writeGradients(session, tensors, flags.gradients);
    session.run(entry, 0, false, update);
  }

  void finishStep(int64_t step, double seconds) {
    double loss = session.readScalar("loss"), count = session.readScalar("loss.count");
    session.step = step + 1;
    losses.write(format("%.9g", loss));
    if (count == 0)
      progress.line(format(
          "warning: step %lld has no label that counts; its loss is 0 and nothing is updated",
          (long long)step));
    if (std::isnan(loss) || std::isinf(loss))
      PSRT_FAIL(BadInput,
                "the loss of step %lld is %s; lower the learning rate (--set lr=...), or look at "
                "this step's data",
                (long long)step, std::isnan(loss) ? "nan" : "infinite");
    progress.update(step + 1, loss);
    double evalLoss = NAN;
    if (evaluator &&
        (step + 1 == total || (flags.evalEvery > 0 && (step + 1) % flags.evalEvery == 0)))
      evalLoss = evaluate();
    writeLog(step, loss, evalLoss, seconds);
  }

  double evaluate() {
    evaluatedAt = session.step;
    double loss = evaluator->run();
    progress.line(format("step %lld: eval loss %.9g over %lld samples", (long long)session.step,
                         loss, (long long)evaluator->samples()));
    return loss;
  }

  /// As JSON has it, which has no nan.
  static std::string number(double value) {
    return std::isfinite(value) ? format("%.9g", value) : "null";
  }

  void writeLog(int64_t step, double loss, double evalLoss, double seconds) {
    if (flags.log.empty())
      return;
    double samples = double(order.microBatches * order.rows);
    std::string line = format(
        "{\"step\": %lld, \"loss\": %.9g, \"lr\": %.9g, \"samples_s\": %.6g, \"step_ms\": %.6g",
        (long long)step, loss, rates.empty() ? 0.0 : rates[0].second * schedule.factor(step),
        samples / seconds, seconds * 1e3);
    for (const Input *input : session.inputsOf(entry))
      if (input->placement.shape.size() == 2 && input->role == "data") {
        line +=
            format(", \"tokens_s\": %.6g", samples * double(input->placement.shape[1]) / seconds);
        break;
      }
    for (const auto &[name, symbol] : scalars)
      line += ", " + quoted(name) + ": " +
              number(session.readScalar(symbol) / double(order.microBatches));
    if (!std::isnan(evalLoss))
      line += format(", \"eval_loss\": %.9g", evalLoss);
    log.write(line + format(", \"memory\": %lld}", (long long)session.getProgram().arenaBytes));
  }

  Session &session;
  const NamedTensors &tensors;
  const Flags &flags;
  const SampleSource &source;
  Evaluator *evaluator;
  const EntryPoint &entry;
  SampleOrder order;
  int64_t total;
  Schedule schedule;
  Progress progress;
  LineFile losses, log;
  std::vector<std::pair<std::string, double>> rates;
  /// Further floating scalars of the model: name, and the symbol of their sum over micro-batches.
  std::vector<std::pair<std::string, std::string>> scalars;
  int64_t evaluatedAt = -1;
};

/// Whether two paths name one file that is there.
bool isSameFile(const std::string &a, const std::string &b) {
  std::error_code error;
  return std::filesystem::equivalent(a, b, error) && !error;
}

/// Everything that is to be written can be, and replaces nothing that is read.
void checkOutputPaths(const Session &session, const Flags &flags) {
  if (!session.isFirst())
    return;
  std::vector<std::string> read = flags.data.files;
  read.insert(read.end(), flags.evalData.begin(), flags.evalData.end());
  for (const Variable &variable : session.getProgram().variables)
    if (variable.hasFile && std::find(read.begin(), read.end(), variable.file.path) == read.end())
      // As it is found: beside the program, or from here.
      read.insert(read.end(),
                  {session.getSource().folder + "/" + variable.file.path, variable.file.path});
  std::vector<std::string> written;
  for (const std::string &path : {flags.losses, flags.log, flags.gradients, flags.exportWeights,
                                  flags.outputs, flags.trace}) {
    if (path.empty())
      continue;
    if (isSameFile(path, "/proc/self/exe"))
      PSRT_FAIL(BadArgument, "\"%s\" is to be written, and is this program; name another file",
                path.c_str());
    for (const std::string &other : read)
      if (isSameFile(path, other))
        PSRT_FAIL(BadArgument, "\"%s\" is to be written, and is read as \"%s\"; name another file",
                  path.c_str(), other.c_str());
    for (const std::string &other : written)
      if (path == other)
        PSRT_FAIL(BadArgument, "\"%s\" is to be written twice; name two files", path.c_str());
    written.push_back(path);
    if (path == flags.exportWeights && isWeightFolder(path))
      checkFolderWritable(path);
    else if (path == flags.losses || path == flags.log || path == flags.trace)
      checkWritable(path); // line by line
    else
      checkReplaceable(path);
  }
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
  if (!std::isnan(loss) && session.isFirst())
    std::printf("eval loss %.9g over %lld samples\n", loss, (long long)evaluator.samples());
  if (!flags.outputs.empty())
    evaluator.writeOutputs(flags.outputs);
}

} // namespace

void applySettings(Session &session, const Flags &flags) {
  for (const ScalarSetting &setting : flags.set)
    if (setting.glob.empty())
      setScalars(session, setting.name, setting.value);
    else
      setRates(session, setting.glob, setting.value);
}

void train(Session &session, const NamedTensors &tensors, const Flags &flags) {
  if ((flags.evalEvery > 0 || flags.evalSteps > 0) && flags.evalData.empty() && !flags.eval)
    PSRT_FAIL(BadArgument, "--eval-every and --eval-steps need --eval-data");
  if (!flags.outputs.empty() && !flags.eval)
    PSRT_FAIL(BadArgument, "--outputs needs --eval");
  checkOutputPaths(session, flags);
  std::signal(SIGTERM, requestStop);
  if (!flags.trace.empty())
    session.parallel([](Rank &rank) { rank.executor->startTrace(400000); });
  if (flags.eval) {
    evaluateOnly(session, flags);
  } else if (!flags.data.files.empty()) {
    if (!session.getProgram().entry("step"))
      PSRT_FAIL(BadArgument,
                "the program cannot train by itself: it was compiled with --loss none, and takes "
                "cotangents through the C API (psrt_backward); compile it with a loss, or to "
                "NAME.so for psrt_open");
    std::unique_ptr<SampleSource> source = openData(session.getProgram(), flags.data), evalSource;
    std::unique_ptr<Evaluator> evaluator;
    if (!flags.evalData.empty()) {
      DataOptions options = flags.data;
      options.files = flags.evalData;
      evalSource = openData(session.getProgram(), options);
      evaluator = std::make_unique<Evaluator>(session, *evalSource, flags.evalSteps);
    }
    Trainer(session, tensors, flags, *source, evaluator.get()).run();
  } else if (flags.exportWeights.empty()) {
    PSRT_FAIL(BadArgument,
              "nothing to do: give --data FILE to train, --eval --eval-data FILE, or --info");
  }
  if (!flags.exportWeights.empty())
    exportWeights(session, tensors, flags.exportWeights, flags.maxFileBytes);
  if (!flags.trace.empty())
    writeTrace(session, flags.trace);
}

} // namespace psrt
