// Explains a loss that is nan or infinite: finds the bad input, weight or rank.
#include "runtime/core/Element.h"
#include "runtime/main/Parts.h"
#include <algorithm>
#include <cmath>
#include <cstring>

namespace psrt {
namespace {

/// Returns the ranks whose part of the loss is nan or infinite, for example "0, 3". Returns "" if
/// all ranks have a bad part, or if none has.
std::string findBadRanks(Session &session, const RecordedScalars &scalars) {
  const Program &program = session.getProgram();
  int index = program.variable("loss.sum");
  if (index < 0 || program.variables[index].dtype != Dtype::F32)
    return "";
  std::vector<char> bad(program.mesh.size());
  const Addresses &addresses = program.variables[index].addresses;
  session.parallel([&](Rank &rank) {
    if (!addresses.isAt(rank.stage))
      return;
    float part = 0;
    if (const char *recorded = scalars.find(rank.index, program.variables[index]))
      std::memcpy(&part, recorded, sizeof(part));
    bad[rank.index] = !std::isfinite(part);
  });
  std::string here, all;
  for (size_t rank = 0; rank < bad.size(); ++rank)
    if (bad[rank])
      here += (here.empty() ? "" : ", ") + std::to_string(rank);
  int64_t count = 0;
  for (const std::string &text : session.collect(here)) {
    all += (all.empty() || text.empty() ? "" : ", ") + text;
    count += text.empty() ? 0 : 1 + std::count(text.begin(), text.end(), ',');
  }
  return count == program.mesh.size() ? "" : all;
}

} // namespace

std::string findBadInput(Session &session, const EntryPoint &entry, const SampleSource &source,
                         const std::vector<int64_t> &samples) {
  for (const Input *input : session.inputsOf(entry)) {
    if (input->dtype != Dtype::F32 && input->dtype != Dtype::F64)
      continue;
    int64_t count = sampleElements(*input);
    std::vector<char> scratch(count * dtypeSize(input->dtype));
    for (int64_t sample : samples) {
      if (sample < 0)
        continue;
      const char *data = source.read(*input, sample, scratch.data());
      int64_t bad = findNotFinite(data, input->dtype, count);
      if (bad >= 0)
        return source.where(*input, sample, bad);
    }
  }
  return "";
}

std::string explainBadLoss(Session &session, const RecordedScalars &scalars,
                           const EntryPoint &entry, const SampleSource &source,
                           const SampleOrder &order, int64_t step, bool isFirst,
                           const std::string &badWeight) {
  std::string ranks = findBadRanks(session, scalars);
  std::string text = ranks.empty() ? "" : " (in the part of rank " + ranks + ")";
  std::vector<int64_t> samples;
  for (int64_t slot = 0; slot < order.microBatches * order.rows; ++slot)
    samples.push_back(order.sample(step, slot / order.rows, slot % order.rows));
  std::string input = findBadInput(session, entry, source, samples);
  if (!input.empty())
    return text + ": " + input + " is nan or infinite; fix the data";
  if (isFirst && !badWeight.empty())
    return text + ": the weight \"" + badWeight +
           "\" that the run started from has nan or infinite values; load an earlier "
           "checkpoint, or give other weights";
  if (isFirst)
    return text +
           "; its inputs and the weights that the run started from are finite, so an op of the "
           "model produces this value (log of 0, division by 0, a computed index out of range); a "
           "large 16-bit value may overflow to infinity: keep its module in f32 (ps-compile "
           "--precision fp16,keep-fp32=MODULE), or use bf16";
  return text +
         "; its inputs are finite: lower the learning rate (--set lr=...), or clip gradients "
         "(ps-compile --clip-norm 1)";
}

} // namespace psrt
