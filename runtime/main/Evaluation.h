// Evaluates the model: runs @evaluate over data and computes its loss and outputs.
#ifndef PSRT_MAIN_EVALUATION_H
#define PSRT_MAIN_EVALUATION_H

#include "runtime/main/Flags.h"
#include "runtime/session/Session.h"
#include <algorithm>
#include <limits>
#include <optional>

namespace psrt {

/// Returns the order in which an entry's micro-batches read a source. Fails if the source has fewer
/// samples than one step, unless labels can be ignored or `mayFillUp` allows padding rows.
SampleOrder makeOrder(const Session &session, EntryKind entry, const SampleSource &source,
                      int64_t microBatches, bool mayFillUp = false);
/// Prints a note on stderr with the number of samples skipped at the end of `data`, if any.
void noteSkippedSamples(const Session &session, const SampleOrder &order, const char *data);

/// Prints a note on stderr with the tensors of `data` that the model does not read.
void noteUnreadTensors(const Session &session, const SampleSource &source, const char *data);

/// Runs @evaluate over data, computes the loss and collects outputs along the batch dim.
class Evaluator {
public:
  Evaluator(Session &session, const SampleSource &source, int64_t maxSteps);
  /// Returns the loss: the sum of its parts, each a sum over all batches divided by its count.
  /// Returns NaN if nothing counts.
  double run();
  /// Returns whether the model has a loss.
  bool computesLoss() const { return !parts.empty(); }
  /// Fails if the loss of the last run is nan or infinite, naming the batch and the input.
  void checkLoss(double loss) const;
  /// Returns the number of samples that a run reads.
  int64_t samples() const { return std::min(order.samples, steps * order.rows); }

  /// Chooses the outputs that `run` collects. Without names, all outputs are collected except parts
  /// of the loss and, for several batches, outputs that describe a whole batch; a note names the
  /// latter. Fails if `names` contains an output of a whole batch.
  void collectOutputs(const std::vector<std::string> &names);
  void writeOutputs(const std::string &path);

private:
  struct Collected {
    const Output *output;
    std::vector<char> data;
  };
  /// Sums and counts of the parts of the loss, alternating.
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
  /// A part of the loss. Its count is `max(counts + plus, least)`, where counts is summed over
  /// batches.
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
