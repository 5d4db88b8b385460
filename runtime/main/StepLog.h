// Writes the log of a run: one JSON object per line (docs/running.md lists its keys).
#ifndef PSRT_MAIN_STEPLOG_H
#define PSRT_MAIN_STEPLOG_H

#include "runtime/main/LineFile.h"
#include "runtime/session/Session.h"
#include <cmath>

namespace psrt {

/// The record of one step.
struct StepRecord {
  int64_t step = 0;
  double start = 0;                   ///< seconds of the steady clock
  RecordedScalars *scalars = nullptr; ///< values after the step
  double loss = 0;
  bool skipped = false;                      ///< whether the update was skipped
  double seconds = 0;                        ///< duration of the step, without evaluation
  double rateFactor = 1;                     ///< learning-rate factor of the schedule
  double evalLoss = NAN, averagesLoss = NAN; ///< losses of the evaluation after the step
};

/// Writes the log of a run.
class StepLog {
public:
  /// Writes nothing if `path` is empty. Writes a line every `every` steps, for each evaluation, and
  /// for the last step. Keeps the lines of an earlier run for steps before the session's step.
  /// `samples` is the number of samples per step. With a path, measures the peak rate of the ranks,
  /// so all processes must call this together.
  StepLog(Session &session, const std::string &path, int64_t every, int64_t samples,
          int64_t microBatches);
  /// Returns the symbols of the scalars that the log contains.
  std::vector<std::string> getSymbols() const;
  /// Writes the line of a step if one is due. All processes of a job must make this call.
  void write(StepRecord &record);
  /// Writes the line of the last step if it is missing. Creates an empty file if no line was
  /// written. Must be called at the end of the run.
  void finish();
  /// Syncs all lines to disk.
  void sync() { file.sync(); }
  /// Returns why the file cannot be written, or "" if it can.
  const std::string &getFailure() const { return file.getFailure(); }
  /// Returns the symbols and base values of the learning rates.
  const std::vector<std::pair<std::string, double>> &getRates() const { return rates; }

private:
  std::string makeLine(StepRecord &record);
  void addRates(std::string &line, double factor) const;
  void addSpeed(std::string &line, double seconds) const;

  Session &session;
  bool wanted;
  int64_t every;
  LineFile file;
  std::string pending;                       ///< the newest step's line until it is written
  int64_t samples, microBatches, tokens = 0; ///< tokens per step; 0: the inputs are not tokens
  double peak = 0;
  std::vector<std::pair<std::string, double>> rates;
  /// Further float scalar outputs of the model: log key, and symbol of the accumulator over
  /// micro-batches.
  std::vector<std::pair<std::string, std::string>> scalars;
};

} // namespace psrt

#endif
