// Searches parameters for nan and infinity.
#include "runtime/session/FiniteWeights.h"
#include "runtime/core/Element.h"
#include "runtime/core/ProgramJson.h"
#include "runtime/session/Shards.h"
#include <mutex>

namespace psrt {

bool isTrained(const Program &program, const NamedTensor &tensor) {
  const Variable &variable = program.variables[tensor.parts.front().variable];
  return tensor.kind == VariableKind::Parameter && !variable.frozen;
}

void checkFinite(const Program &program, const NamedTensor &tensor, const char *data, int64_t count,
                 int64_t step) {
  if (!isTrained(program, tensor) || findNotFinite(data, tensor.dtype, count) < 0)
    return;
  PSRT_FAIL(
      BadInput,
      "after %lld steps the weight \"%s\" has nan or infinite values and is not "
      "saved; resume from an earlier checkpoint with a lower learning rate (--set lr=...), or clip "
      "gradients (ps-compile --clip-norm 1)",
      (long long)step, tensor.name.c_str());
}

/// Returns whether a rank's shard has nan or infinite values.
static bool isBad(const Program &program, const Rank &rank, const Shard &shard) {
  const Variable &variable = program.variables[shard.variable];
  int64_t count = countElements(shapeOf(shard.ranges));
  std::vector<char> values(count * dtypeSize(variable.dtype));
  copyShard(program, rank, variable, values.data());
  return findNotFinite(values.data(), variable.dtype, count) >= 0;
}

std::string findBadWeight(Session &session, const NamedTensors &tensors) {
  const Program &program = session.getProgram();
  std::vector<const NamedTensor *> weights;
  for (const NamedTensor &tensor : tensors.all())
    if (tensor.kind == VariableKind::Parameter && isFloat(tensor.dtype))
      weights.push_back(&tensor);
  std::vector<std::vector<Shard>> shards = planShards(program, weights); // by rank
  std::string bad;
  std::mutex mutex;
  session.parallel([&](Rank &rank) {
    for (const Shard &shard : shards[rank.index])
      if (!shard.isCollected && isBad(program, rank, shard)) {
        std::lock_guard<std::mutex> lock(mutex);
        bad = shard.tensor->name;
        return;
      }
  });
  for (const std::string &other : session.collect(bad))
    bad = bad.empty() ? other : bad;
  return session.broadcast(bad);
}

} // namespace psrt
