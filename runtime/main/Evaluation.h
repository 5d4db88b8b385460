// Evaluation: @evaluate over data, its loss and its outputs.
#ifndef PSRT_MAIN_EVALUATION_H
#define PSRT_MAIN_EVALUATION_H

#include "runtime/main/Flags.h"
#include "runtime/session/Session.h"
#include <algorithm>
#include <limits>
#include <optional>

namespace psrt {

/// The order in which an entry's micro-batches read a source. Fails when that has less than a step,
/// and neither labels can be ignored nor rows without meaning fill it up.
SampleOrder makeOrder(const Session &session, const std::string &entry, const SampleSource &source,
                      int64_t microBatches, bool mayFillUp = false);
/// Says on stderr how many samples at the end of `data` are left out, where some are.
void noteLeftOut(const Session &session, const SampleOrder &order, const char *data);

/// Says on stderr what `data` has that the model does not read.
void noteUnread(const Session &session, const SampleSource &source, const char *data);

/// Runs @evaluate over data: the loss, and outputs collected along the batch dim.
class Evaluator {
public:
  Evaluator(Session &session, const SampleSource &source, int64_t maxSteps);
  /// The loss: the sum of its parts, each a sum over all batches divided by its count; NaN without.
  double run();
  /// Whether the model has a loss.
  bool computesLoss() const { return !parts.empty(); }
  /// Fails where the loss of the last run is nan or infinite: names the batch, and the input.
  void checkLoss(double loss) const;
  /// How many samples a run reads.
  int64_t samples() const { return std::min(order.samples, steps * order.rows); }

  /// Which outputs `run` collects; none: all but those of the loss, and but those that are one of a
  /// batch where there are several batches, which a note names. Fails for such a one by name.
  void collectOutputs(const std::vector<std::string> &names);
  void writeOutputs(const std::string &path);

private:
  struct Collected {
    const Output *output;
    std::vector<char> data;
  };
  /// What the parts of the loss add up to: their sums and counts, one after the other.
  using Sums = std::vector<double>;
  /// Runs a batch; its rows read the samples that `sampleOf(row)` gives.
  template <typename SampleOf> Sums runBatch(SampleOf sampleOf);
  Sums addUpRest(int64_t first, int64_t count, std::optional<int64_t> step);
  bool isOfBatch(const Output &output) const;
  bool mayBeOfSamples(const Output &output) const;
  void collect(int64_t step);
  const Output &find(const std::string &name) const;
  std::optional<double> readOutput(const std::string &name); ///< nullopt: there is none

  Session &session;
  const SampleSource &source;
  const EntryPoint &entry;
  SampleOrder order;
  int64_t steps = 0;
  int64_t badStep = -1; ///< the first batch of the last run whose sums are not finite
  /// A part of the loss. Its count is `max(counts + plus, least)` of what the batches count.
  struct Part {
    std::string suffix; ///< of the names of its outputs
    double plus = 0, least = -std::numeric_limits<double>::infinity();
  };
  std::vector<Part> parts;
  std::vector<Collected> collected;
};

/// `--eval`: evaluates once, prints the loss, writes the outputs.
void evaluateOnly(Session &session, const Flags &flags);

} // namespace psrt

#endif
