// Chooses the sample of each row of a step, and copies a rank's part of each sample to its memory.
#ifndef PSRT_DATA_BATCHES_H
#define PSRT_DATA_BATCHES_H

#include "runtime/core/RankMemory.h"
#include "runtime/data/Samples.h"
#include <cstring>

namespace psrt {

/// The order of samples. With M micro-batches of B rows, row b of micro-batch m of step s reads the
/// sample at position s M B + m B + b of this order. An epoch consists of complete steps. If the
/// last step has too few samples, it is padded with rows to ignore (-1), or skipped if rows cannot
/// be ignored.
struct SampleOrder {
  int64_t samples = 0, microBatches = 1, rows = 1;
  bool shuffle = false, canIgnore = false;
  uint64_t seed = 0;

  int64_t stepsPerEpoch() const;
  /// Returns the sample of a row, or -1 for a row to ignore.
  int64_t sample(int64_t step, int64_t microBatch, int64_t row) const;
};

/// Returns the number of rows of a micro-batch (over all ranks), or 1 if no input has a batch dim.
int64_t batchRows(const std::vector<const Input *> &inputs);

/// Copies one rank's part of an input. Construct once per rank and input: `write` does not
/// allocate.
class InputWriter {
public:
  InputWriter(const Input &input, const Mesh &mesh, const std::vector<int64_t> &coordinates);
  const Input &getInput() const { return *input; }
  /// Fills the input's buffer at an address. Global row r gets the sample samples(r), or is ignored
  /// if samples(r) is -1. If the input has a limit, fails on values that are neither in [0, limit)
  /// nor the ignored label.
  template <typename Samples>
  void write(const SampleSource &source, RankMemory &memory, int64_t address, Samples samples) {
    char *data = memory.stage(address, bytes);
    if (hasPadding && !memory.host(address))
      std::memset(data, 0, bytes);
    for (size_t i = 0; i < rows.size(); ++i)
      writeRow(source, data, int64_t(i), input->batchDim < 0 ? 0 : samples(rows[i]));
    memory.commitAhead(data, address, bytes);
  }

private:
  struct Run {
    int64_t local, global, count;
  };
  void writeRow(const SampleSource &source, char *data, int64_t row, int64_t sample);
  void fillIgnored(char *data, int64_t row);
  void check(const SampleSource &source, const char *values, const Run &run, int64_t sample) const;
  int64_t offset(int64_t row, int64_t local) const;

  const Input *input;
  std::vector<int64_t> rows; ///< global row per local row
  std::vector<Run> runs;     ///< contiguous elements of one row
  int64_t inner = 1;         ///< product of the local dims after the batch dim
  int64_t bytes = 0;         ///< bytes of the buffer
  bool hasPadding = false;   ///< whether the buffer has padding, which no row writes
  std::vector<char> scratch;
};

} // namespace psrt

#endif
