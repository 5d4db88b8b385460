// Implements the training loop.
#include "runtime/core/NewFile.h"
#include "runtime/main/Evaluation.h"
#include "runtime/main/LineFile.h"
#include "runtime/main/Parts.h"
#include "runtime/main/Progress.h"
#include "runtime/main/Schedule.h"
#include "runtime/main/Signals.h"
#include "runtime/main/StepLog.h"
#include "runtime/session/Averages.h"
#include "runtime/session/FiniteWeights.h"
#include "shared/PrintableText.h"
#include <algorithm>
#include <cmath>
#include <deque>
#include <filesystem>
#include <functional>
#include <tuple>
#include <utility>

namespace psrt {
namespace {

/// Returns whether the run resumed from the folder of --save.
bool isLoadedFromSave(const Flags &flags) {
  std::error_code error;
  return (flags.load == "latest" && hasCheckpoint(flags.save)) ||
         std::filesystem::equivalent(flags.load, flags.save, error);
}

/// Returns the function that selects which losses of an earlier run to keep. A run that starts at
/// step 0 keeps none.
LineFile::Keep keepLosses(const Session &session, const RunState &state) {
  if (session.step == 0)
    return {};
  return [from = session.step, mark = state.losses](std::string_view text) {
    return keepLossLines(text, from, mark);
  };
}

/// Returns the total number of steps. Fails if a position in the data would exceed 2^63.
int64_t countSteps(const Flags &flags, const SampleOrder &order) {
  int64_t samples = order.microBatches * order.rows, most = INT64_MAX / samples;
  if (flags.steps && *flags.steps > most)
    PSRT_FAIL(BadArgument,
              "--steps %lld: a step reads %lld samples and a run at most 2^63; give at most %lld",
              (long long)*flags.steps, (long long)samples, (long long)most);
  if (flags.steps)
    return *flags.steps;
  int64_t epochs = flags.epochs.value_or(1), perEpoch = order.stepsPerEpoch();
  if (epochs > most / perEpoch)
    PSRT_FAIL(
        BadArgument,
        "--epochs %lld: an epoch has %lld steps of %lld samples and a run reads at most 2^63; give "
        "at most %lld",
        (long long)epochs, (long long)perEpoch, (long long)samples, (long long)(most / perEpoch));
  return epochs * perEpoch;
}

/// Trains on a data source: reads samples, runs steps, logs, evaluates and saves checkpoints.
class Trainer {
public:
  Trainer(Session &session, const NamedTensors &tensors, const Flags &flags,
          const SampleSource &source, Evaluator *evaluator, const RunState &state)
      : session(session), tensors(tensors), flags(flags), source(source), evaluator(evaluator),
        state(state), entry(session.entry(EntryKind::Step)),
        order(makeOrder(session, EntryKind::Step, source, session.getProgram().microBatches)),
        total(countSteps(flags, order)), schedule(flags.schedule, total),
        progress(total, session.step, order.microBatches * order.rows,
                 flags.quiet ? ProgressStyle::None : flags.progress, session.isFirst()),
        losses(session.isFirst() ? flags.losses : "", keepLosses(session, state)),
        log(session, flags.log, flags.logEvery, order.microBatches * order.rows,
            order.microBatches) {
    order.shuffle = flags.shuffle;
    order.seed = flags.seed;
    if (total >= order.stepsPerEpoch())
      noteSkippedSamples(session, order, "the data");
    session.prepare(EntryKind::Step);
    std::vector<std::string> symbols = log.getSymbols();
    symbols.insert(symbols.end(), {"loss", "loss.sum", "loss.count", "loss_scale"});
    for (RecordedScalars &each : recorded)
      each = session.recordScalars(symbols);
  }

  /// Trains until the last step, a stop request or bad data. Then saves. Returns the error about
  /// the data that ended the run, or nullopt.
  std::optional<Status> run() {
    bool stopped = false;
    if (session.step >= total)
      progress.line(format("nothing to train: the run is at step %lld, and ends at step %lld",
                           (long long)session.step, (long long)total));
    while (session.step < total) {
      withoutBadData([&] { readSamples(session.step); });
      if (stopped = session.isAny(mustStop()); stopped)
        break;
      begin();
      // On an asynchronous device, the current step runs while the host reads the results of the
      // previous one.
      int64_t done = session.step + 1;
      finish(session.runsLater() && !needsResults(done) ? 1 : 0);
      session.step = done;
      if (flags.saveEvery > 0 && session.step % flags.saveEvery == 0)
        save();
    }
    finish(0);
    badData = findErrorOfAny(session, badData);
    losses.finish();
    log.finish();
    bool isThere = session.step == startedAt && isLoadedFromSave(flags);
    if (!flags.save.empty() && savedAt != session.step && !isThere)
      save();
    if (std::string failure = session.broadcast(getFailure()); !failure.empty())
      PSRT_FAIL(BadInput, "%s", failure.c_str());
    if (stopped && evaluator && evaluatedAt != session.step && !badData)
      evaluate();
    return badData;
  }

private:
  /// Calls `body`, which reads data. If the data is bad, the weights are still valid, so the run
  /// saves and ends. Before the first step there is nothing to save, so the error is thrown.
  void withoutBadData(const std::function<void()> &body) {
    try {
      body();
    } catch (const Error &error) {
      bool hasTrained = session.step > startedAt;
      if (error.status.code != StatusCode::BadInput || !hasTrained)
        throw;
      badData = error.status;
    }
  }

  /// Returns why rank 0 could not write --losses or --log, or "".
  const std::string &getFailure() const {
    return losses.getFailure().empty() ? log.getFailure() : losses.getFailure();
  }

  /// Returns whether this process has a reason to save and end the run: a signal, a failed write,
  /// or bad data.
  bool mustStop() const {
    return isStopRequested() || !getFailure().empty() || badData.has_value();
  }

  /// Returns whether the run saves or evaluates after `done` steps.
  bool needsResults(int64_t done) const {
    return done == total || (flags.saveEvery > 0 && done % flags.saveEvery == 0) ||
           isEvaluated(done);
  }

  bool isEvaluated(int64_t done) const {
    return evaluator && (done == total || (flags.evalEvery > 0 && done % flags.evalEvery == 0));
  }

  /// Copies the samples of a step to the inputs.
  void readSamples(int64_t step) {
    readAt = steadySeconds();
    session.writeInputs(entry, source, session.getProgram().microBatches,
                        [&](int64_t m, int64_t row) { return order.sample(step, m, row); });
  }

  /// Starts the next step, whose samples are already in the inputs.
  void begin() {
    StepRecord &record = open.emplace_back();
    record.step = session.step;
    record.rateFactor = schedule.factor(session.step);
    record.start = readAt;
    for (const auto &[name, base] : log.getRates())
      session.setScalar(name, base * record.rateFactor);
    runStep(session.step);
    record.scalars = &recorded[record.step % 2];
    record.scalars->start();
  }

  /// Waits for all steps in flight except the last `left`, and reports the completed steps.
  void finish(size_t left) {
    for (; open.size() > left; open.pop_front()) {
      StepRecord &record = open.front();
      record.loss = session.readRecorded(*record.scalars, "loss"); // waits for the end of the step
      double end = steadySeconds();
      record.seconds = end - std::max(record.start, lastEnd);
      lastEnd = end;
      session.step = std::max(session.step, record.step + 1);
      finishStep(record);
    }
  }

  void runStep(int64_t step) {
    if (step != 0 || flags.gradients.empty()) {
      session.run(entry);
      return;
    }
    session.run(entry, 0, false, Extent::BeforeUpdate);
    writeGradients(session, tensors, flags.gradients);
    if (!flags.quiet && session.isFirst())
      progress.line("wrote " + describeWritten(flags.gradients));
    session.run(entry, 0, false, Extent::Update);
  }

  void finishStep(StepRecord &record) {
    record.skipped = session.readRecorded(*record.scalars, "loss.count") == 0;
    losses.write(format("%.9g", record.loss));
    if (record.skipped)
      progress.line(format(
          "warning: step %lld has only ignored or masked labels; its loss is 0 and no weight is "
          "updated",
          (long long)record.step));
    bool overflowed = checkLossScale(record);
    if (!std::isfinite(record.loss) && !overflowed)
      PSRT_FAIL(BadInput, "the loss of step %lld is %s%s", (long long)record.step,
                std::isnan(record.loss) ? "nan" : "infinite",
                explainBadLoss(session, *record.scalars, entry, source, order, record.step,
                               record.step == startedAt, badWeight)
                    .c_str());
    progress.update(record.step + 1, record.loss);
    if (isEvaluated(record.step + 1))
      withoutBadData([&] { std::tie(record.evalLoss, record.averagesLoss) = evaluate(); });
    log.write(record);
  }

  /// Checks the loss scale, if there is one. Returns true if gradients were not finite, so that the
  /// step was skipped and the scale was halved. Fails if the scale cannot be reduced further.
  bool checkLossScale(StepRecord &record) {
    double before = std::exchange(lossScale, session.readRecorded(*record.scalars, "loss_scale"));
    if (!(lossScale < before))
      return false;
    record.skipped = true;
    if (lossScale < 0x1p-32)
      PSRT_FAIL(BadInput,
                "the gradients of step %lld are not finite even with a loss scale of %g: an op "
                "overflows in 16 bits; keep its module in f32 (ps-compile --precision "
                "fp16,keep-fp32=MODULE), or use bf16",
                (long long)record.step, before);
    return true;
  }

  void save() {
    savedAt = session.step;
    losses.sync(); // a checkpoint must not contain more steps than --losses and --log
    log.sync();
    RunPosition position{session.step,  session.getSeed(),
                         flags.shuffle, order.microBatches * order.rows,
                         losses.mark(), state.run};
    std::string saved =
        saveCheckpoint(session, tensors, position,
                       {flags.save, flags.keep, flags.maxFileBytes, state.lock, state.checkpoint});
    if (!flags.quiet && !saved.empty())
      progress.line("saved " + saved);
  }

  /// Evaluates the weights, and their averages if the program has them. Returns both losses; the
  /// second is NaN without averages.
  std::pair<double, double> evaluate() {
    evaluatedAt = session.step;
    double loss = evaluateOne("eval loss");
    if (!hasAverages(session))
      return {loss, NAN};
    AveragesInPlace inPlace(session);
    double averages = NAN;
    withoutBadData([&] { averages = evaluateOne("eval loss of the averages"); });
    inPlace.restore(); // before the run saves its weights, also after bad data
    return {loss, averages};
  }

  double evaluateOne(const char *title) {
    double begin = steadySeconds(), loss = evaluator->run();
    progress.exclude(steadySeconds() - begin);
    progress.line(format("step %lld: %s %.9g over %lld samples", (long long)session.step, title,
                         loss, (long long)evaluator->samples()));
    return loss;
  }

  Session &session;
  const NamedTensors &tensors;
  const Flags &flags;
  const SampleSource &source;
  Evaluator *evaluator;
  const RunState &state;
  const EntryPoint &entry;
  SampleOrder order;
  int64_t total;
  Schedule schedule;
  Progress progress;
  LineFile losses;
  StepLog log;
  std::deque<StepRecord> open; ///< steps in flight: started, but not reported yet
  RecordedScalars recorded[2]; ///< scalars of the steps in flight, used alternately
  double readAt = 0;           ///< when reading the samples of the next step began
  double lastEnd = 0;          ///< when the last reported step ended
  int64_t evaluatedAt = -1, savedAt = -1;
  std::optional<Status> badData; ///< the error that ends the run
  int64_t startedAt = session.step;
  /// Name of a loaded weight that is nan or infinite, to explain a bad first loss; empty: none.
  std::string badWeight =
      flags.load.empty() && flags.weights.empty() ? "" : findBadWeight(session, tensors);
  double lossScale = session.readScalar("loss_scale"); ///< NaN: no loss scale
};

/// Fails if the program has no training step.
void checkCanTrain(const Program &program) {
  if (program.entry(EntryKind::Step))
    return;
  if (!program.entry(EntryKind::Update))
    PSRT_FAIL(BadArgument,
              "the program was compiled with --inference and only evaluates; give --eval with the "
              "data, or compile without --inference");
  PSRT_FAIL(BadArgument,
            "the program was compiled with --loss none and cannot train by itself: it takes "
            "cotangents through the C API (psrt_backward); compile with a loss, or to NAME.so for "
            "psrt_open");
}

/// Trains on the data of --data. Returns nullopt, or an error after which the weights are still
/// valid: bad data, or a checkpoint that could not be saved.
std::optional<Status> trainOnData(Session &session, const NamedTensors &tensors, const Flags &flags,
                                  const RunState &state) {
  checkCanTrain(session.getProgram());
  listenForStop(session.isFirst() && !flags.quiet);
  std::unique_ptr<SampleSource> source = openData(session.getProgram(), flags.data), evalSource;
  noteUnreadTensors(session, *source, "the data");
  std::unique_ptr<Evaluator> evaluator;
  if (!flags.evalData.empty()) {
    DataOptions options = flags.data;
    options.files = flags.evalData;
    options.flag = "--eval-data";
    evalSource = openData(session.getProgram(), options);
    evaluator = std::make_unique<Evaluator>(session, *evalSource, flags.evalSteps);
  }
  try {
    return Trainer(session, tensors, flags, *source, evaluator.get(), state).run();
  } catch (const SaveFailed &failure) {
    return failure.status;
  }
}

ExportOptions exportOptions(const Flags &flags, bool averages) {
  bool trained = !flags.eval && !flags.data.files.empty();
  return {flags.maxFileBytes, averages, flags.exportOnly, trained};
}

/// Reserves disk space for the weights that the run writes at its end. The weights can then be
/// written even if the disk is full at that time.
ReservedSpace reserveWeights(Session &session, const NamedTensors &tensors, const Flags &flags) {
  if (flags.exportWeights.empty() || !session.isFirst())
    return {};
  auto count = [&](bool averages) {
    return countExportedBytes(session, tensors, flags.exportWeights,
                              exportOptions(flags, averages));
  };
  int64_t bytes = count(false) + (keepsAverages(session.getProgram()) ? count(true) : 0);
  ReservedSpace space;
  nameFlag("--export-weights", [&] { space = ReservedSpace(flags.exportWeights, bytes); });
  return space;
}

/// Writes weights to `path`, and reports the written file.
void writeWeights(Session &session, const NamedTensors &tensors, const Flags &flags,
                  const std::string &path, bool averages) {
  exportWeights(session, tensors, path, exportOptions(flags, averages));
  reportWritten(session, flags, path);
}

/// Writes the weights, and their averages if the program has them.
void writeAllWeights(Session &session, const NamedTensors &tensors, const Flags &flags) {
  writeWeights(session, tensors, flags, flags.exportWeights, /*averages=*/false);
  if (hasAverages(session))
    writeWeights(session, tensors, flags, averagesPath(flags.exportWeights), /*averages=*/true);
}

} // namespace

void applySettings(Session &session, const Flags &flags) {
  for (const ScalarSetting &setting : flags.set)
    if (setting.glob.empty())
      setScalars(session, setting.name, setting.value);
    else
      setRates(session, setting.glob, setting.value);
}

/// Returns the number of samples that a step reads, or 0 if the program has no training step.
static int64_t countStepSamples(const Session &session) {
  const Program &program = session.getProgram();
  const EntryPoint *step = program.entry(EntryKind::Step);
  return step ? program.microBatches * batchRows(session.inputsOf(*step)) : 0;
}

void resume(Session &session, const NamedTensors &tensors, const Checkpoint &checkpoint,
            const Flags &flags) {
  const RunPosition &position = checkpoint.getPosition();
  const char *path = checkpoint.getPath().c_str();
  int64_t samples = countStepSamples(session);
  bool trains = !flags.eval && samples > 0;
  if (trains && position.stepSamples != samples)
    PSRT_FAIL(BadArgument,
              "checkpoint \"%s\": its steps read %lld samples and this program's steps %lld, so "
              "the run would resume at another position in the data; compile with %lld samples per "
              "step",
              path, (long long)position.stepSamples, (long long)samples,
              (long long)position.stepSamples);
  if (trains && position.seed != session.getSeed())
    PSRT_FAIL(BadArgument, "checkpoint \"%s\" was saved with --seed %llu; give the same seed", path,
              (unsigned long long)position.seed);
  if (trains && position.shuffle != flags.shuffle)
    PSRT_FAIL(BadArgument, "checkpoint \"%s\" was saved %s --shuffle; %s", path,
              position.shuffle ? "with" : "without",
              position.shuffle ? "add --shuffle" : "remove --shuffle");
  std::vector<std::string> notes = checkpoint.load(session, tensors);
  session.step = position.step;
  for (const std::string &note : notes)
    if (session.isFirst())
      std::fprintf(stderr, "note: %s\n", parashard::escapeControls(note).c_str());
  if (session.isFirst() && !flags.quiet)
    std::fprintf(stderr, "note: resumes from \"%s\" at step %lld\n", path,
                 (long long)position.step);
}

void checkTokenFlags(const Flags &flags) {
  std::vector<std::string> files = flags.data.files;
  files.insert(files.end(), flags.evalData.begin(), flags.evalData.end());
  if (files.empty() || (!flags.data.labels && !flags.data.type))
    return;
  if (!std::all_of(files.begin(), files.end(), holdsTensors))
    return;
  PSRT_FAIL(BadArgument,
            "%s is for .bin token files; \"%s\" has a tensor for each input, including the labels; "
            "remove the flag",
            flags.data.labels ? "--labels" : "--data-type", files.front().c_str());
}

void train(Session &session, const NamedTensors &tensors, const Flags &flags,
           const RunState &state) {
  if (!flags.exportOnly.empty())
    checkExportOnly(session.getProgram(), tensors, flags.exportOnly);
  checkOutputPaths(session, flags, state.loaded);
  ReservedSpace space = reserveWeights(session, tensors, flags);
  if (!flags.trace.empty())
    session.parallel([](Rank &rank) { rank.executor->startTrace(400000); });
  std::optional<Status> ended;
  if (flags.eval)
    evaluateOnly(session, flags);
  else if (!flags.data.files.empty())
    ended = trainOnData(session, tensors, flags, state);
  else if (flags.exportWeights.empty())
    PSRT_FAIL(BadArgument,
              "nothing to do: give --data FILE to train, --eval --eval-data FILE, or --info");
  space.release();
  if (!flags.exportWeights.empty())
    writeAllWeights(session, tensors, flags);
  if (ended)
    throw Error(*ended);
  if (!flags.trace.empty()) {
    writeTrace(session, flags.trace);
    reportWritten(session, flags, flags.trace);
  }
  if (flags.checkMemory)
    printMemoryCheck(session);
}

} // namespace psrt
