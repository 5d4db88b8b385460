// Computes the order of samples and copies inputs.
#include "runtime/data/Batches.h"
#include "runtime/core/Status.h"
#include "runtime/data/Shuffle.h"
#include <algorithm>
#include <cstring>

namespace psrt {

int64_t SampleOrder::stepsPerEpoch() const {
  int64_t perStep = microBatches * rows;
  return canIgnore ? (samples + perStep - 1) / perStep : samples / perStep;
}

int64_t SampleOrder::sample(int64_t step, int64_t microBatch, int64_t row) const {
  int64_t perEpoch = stepsPerEpoch() * microBatches * rows;
  int64_t position = (step * microBatches + microBatch) * rows + row;
  int64_t epoch = position / perEpoch, index = position % perEpoch;
  if (index >= samples)
    return -1;
  return shuffle ? shuffledIndex(index, samples, seed, epoch) : index;
}

int64_t batchRows(const std::vector<const Input *> &inputs) {
  for (const Input *input : inputs)
    if (input->batchDim >= 0)
      return input->placement.shape[input->batchDim];
  return 1;
}

InputWriter::InputWriter(const Input &input, const Mesh &mesh,
                         const std::vector<int64_t> &coordinates)
    : input(&input) {
  Placement row = input.placement;
  if (input.batchDim >= 0) {
    rows = row.globalIndices(mesh, coordinates, input.batchDim);
    for (size_t d = input.batchDim + 1; d < row.local.size(); ++d)
      inner *= row.local[d];
    row.shape.erase(row.shape.begin() + input.batchDim);
    row.local.erase(row.local.begin() + input.batchDim);
    row.factors.erase(row.factors.begin() + input.batchDim);
  } else {
    rows = {0};
    inner = row.localCount();
  }
  // A run must not cross a multiple of `inner`, so that it is also contiguous in the buffer.
  forEachRun(row, mesh, coordinates, [&](int64_t local, int64_t global, int64_t count) {
    while (count > 0) {
      int64_t n = std::min(count, inner - local % inner);
      runs.push_back({local, global, n});
      local += n, global += n, count -= n;
    }
  });
  int64_t written = 0;
  for (const Run &run : runs)
    written += run.count * int64_t(rows.size());
  hasPadding = written != input.placement.localCount();
  bytes = input.placement.localCount() * dtypeSize(input.dtype);
  scratch.resize(sampleElements(input) * dtypeSize(input.dtype));
}

int64_t InputWriter::offset(int64_t row, int64_t local) const {
  if (input->batchDim < 0)
    return local;
  return (local / inner * int64_t(rows.size()) + row) * inner + local % inner;
}

static int64_t readInteger(const char *at, Dtype dtype) {
  int64_t wide;
  int32_t narrow;
  switch (dtype) {
  case Dtype::I64:
    std::memcpy(&wide, at, 8);
    return wide;
  case Dtype::I32:
    std::memcpy(&narrow, at, 4);
    return narrow;
  case Dtype::U8:
    return uint8_t(*at);
  default:
    return 0;
  }
}

void InputWriter::check(const SampleSource &source, const char *values, const Run &run,
                        int64_t sample) const {
  int64_t size = dtypeSize(input->dtype);
  for (int64_t i = 0; i < run.count; ++i) {
    int64_t value = readInteger(values + i * size, input->dtype);
    if (value >= 0 && value < input->limit)
      continue;
    if (input->hasIgnore && value == input->ignore)
      continue;
    std::string reading = source.suggestReading();
    PSRT_FAIL(
        BadInput,
        "%s: value %lld of input \"%s\" is not in [0, %lld); the data does not fit the model%s",
        source.where(*input, sample, run.global + i).c_str(), (long long)value, input->name.c_str(),
        (long long)input->limit, reading.empty() ? "" : ("; " + reading).c_str());
  }
}

void InputWriter::fillIgnored(char *data, int64_t row) {
  int64_t size = dtypeSize(input->dtype);
  for (const Run &run : runs)
    for (int64_t i = 0; i < run.count; ++i)
      std::memcpy(data + offset(row, run.local + i) * size, &input->ignore, size); // little-endian
}

void InputWriter::writeRow(const SampleSource &source, char *data, int64_t row, int64_t sample) {
  if (sample < 0 && input->role == InputRole::Labels && input->hasIgnore)
    return fillIgnored(data, row);
  // An ignored row gets a real sample, since a normalization of zeros could give NaN.
  sample = std::max<int64_t>(sample, 0);
  int64_t size = dtypeSize(input->dtype);
  const char *values = source.read(*input, sample, scratch.data());
  for (const Run &run : runs) {
    if (input->limit > 0)
      check(source, values + run.global * size, run, sample);
    std::memcpy(data + offset(row, run.local) * size, values + run.global * size, run.count * size);
  }
}

} // namespace psrt
