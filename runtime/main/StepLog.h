// The log of a run: a JSON object a line (docs/running.md lists its keys).
#ifndef PSRT_MAIN_STEPLOG_H
#define PSRT_MAIN_STEPLOG_H

#include "runtime/main/LineFile.h"
#include "runtime/session/Session.h"
#include <cmath>

namespace psrt {

/// What is known of one step.
struct StepRecord {
  int64_t step = 0;
  double start = 0;               ///< seconds of the steady clock
  RecordedScalars *scalars = nullptr; ///< as they were after it
  double loss = 0;
  bool skipped = false;                      ///< nothing was updated
  double seconds = 0;                        ///< of the step, without evaluation
  double rateFactor = 1;                     ///< of the schedule
  double evalLoss = NAN, averagesLoss = NAN; ///< of the evaluation after it
};

class StepLog {
public:
  /// Without a path, nothing is written. Lines of an earlier run stay, but those of the session's
  /// step and later ones. `samples`: of a step. Measures the peak of the ranks, so that all
  /// processes must make it with one.
  StepLog(Session &session, const std::string &path, int64_t samples, int64_t microBatches);
  /// The scalars that its lines show.
  std::vector<std::string> getSymbols() const;
  /// Among processes, all call it.
  void write(StepRecord &record);
  /// At the end of a run: makes an empty file where there is none.
  void finish() { file.finish(); }
  /// All lines are on the disk.
  void sync() { file.sync(); }
  /// Returns why the file cannot be written; empty: it can.
  const std::string &getFailure() const { return file.getFailure(); }
  /// Symbols and base values of the learning rates.
  const std::vector<std::pair<std::string, double>> &getRates() const { return rates; }

private:
  void addRates(std::string &line, double factor) const;
  void addSpeed(std::string &line, double seconds) const;

  Session &session;
  bool wanted;
  LineFile file;
  int64_t samples, microBatches, tokens = 0; ///< tokens of a step; 0: the inputs are none
  double peak = 0;
  std::vector<std::pair<std::string, double>> rates;
  /// Further floating scalars of the model: name, and the symbol of their sum over micro-batches.
  std::vector<std::pair<std::string, std::string>> scalars;
};

} // namespace psrt

#endif
