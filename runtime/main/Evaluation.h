// Evaluates the model: runs the entry `evaluate` over data, and computes the loss and the outputs.
#ifndef PSRT_MAIN_EVALUATION_H
#define PSRT_MAIN_EVALUATION_H

#include "runtime/main/Flags.h"
#include "runtime/session/Session.h"
#include <algorithm>
#include <limits>
#include <optional>

namespace psrt {

/// Returns the order in which the micro-batches of an entry read a source. Fails if the source has
/// fewer samples than a step, and the step may not be padded. A step may be padded if the entry can
/// ignore rows, or if `mayFillUp` is true.
SampleOrder makeOrder(const Session &session, EntryKind entry, const SampleSource &source,
                      int64_t microBatches, bool mayFillUp = false);
/// Prints a note on stderr if samples at the end of a data set are skipped. `data` is the name of
/// the data set in the note.
void noteSkippedSamples(const Session &session, const SampleOrder &order, const char *data);

/// Prints a note on stderr with the tensors of a data set that the model does not read.
void noteUnreadTensors(const Session &session, const SampleSource &source, const char *data);

/// Runs the entry `evaluate` over data, computes the loss, and concatenates outputs along the batch
/// dim.
class Evaluator {
public:
  Evaluator(Session &session, const SampleSource &source, int64_t maxSteps);
  /// Returns the loss: the sum of its parts. Each part is a sum over all batches, divided by the
  /// part's count. Returns NaN if the model has no loss, or if the count of the first part is 0.
  double run();
  /// Returns whether the model has a loss.
  bool computesLoss() const { return !parts.empty(); }
  /// Fails if the loss of the last run is nan or infinite. The error names the batch and the input.
  void checkLoss(double loss) const;
  /// Returns the number of samples that a run reads.
  int64_t samples() const { return std::min(order.samples, steps * order.rows); }

  /// Chooses the outputs that `run` collects. Without names, these are all outputs except sums and
  /// counts of the loss. Outputs with one value per batch are allowed only if the data is exactly
  /// one batch. Otherwise, they are skipped with a note, or are an error if `names` contains them.
  void collectOutputs(const std::vector<std::string> &names);
  void writeOutputs(const std::string &path);

private:
  struct Collected {
    const Output *output;
    std::vector<char> data;
  };
  /// The sums and counts of the parts of the loss: sum, count, sum, count, ...
  using Sums = std::vector<double>;
  /// Runs one batch whose row r reads sample `sampleOf(r)`.
  template <typename SampleOf> Sums runBatch(SampleOf sampleOf);
  Sums addUpRest(int64_t first, int64_t count, std::optional<int64_t> step);
  bool isOfBatch(const Output &output) const;
  bool mayBeOfSamples(const Output &output) const;
  void collect(int64_t step);
  const Output &find(const std::string &name) const;
  std::optional<double> readOutput(const std::string &name); ///< nullopt: no such output

  Session &session;
  const SampleSource &source;
  const EntryPoint &entry;
  SampleOrder order;
  int64_t steps = 0;
  int64_t badStep = -1; ///< the first batch of the last run with a non-finite sum
  /// A part of the loss. The sum of a part is divided by `max(counts + plus, least)`, where
  /// `counts` is the sum of the part's counts over all batches.
  struct Part {
    std::string suffix; ///< suffix of its output names
    double plus = 0, least = -std::numeric_limits<double>::infinity();
  };
  std::vector<Part> parts;
  std::vector<Collected> collected;
};

/// Implements `--eval`: evaluates once, prints the loss and writes the outputs.
void evaluateOnly(Session &session, const Flags &flags);

} // namespace psrt

#endif
