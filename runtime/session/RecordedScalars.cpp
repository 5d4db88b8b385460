// Records scalars after a step.
#include "runtime/session/RecordedScalars.h"
#include "runtime/session/Session.h"

namespace psrt {

/// Returns the variables whose values add up to a scalar. In a pipeline, each stage that adds to
/// the scalar has its own variable (`addsTo`).
static std::vector<const Variable *> partsOf(const Program &program, const std::string &symbol) {
  std::vector<const Variable *> result;
  for (const Variable &variable : program.variables)
    if ((variable.symbol == symbol || variable.addsTo == symbol) && variable.placement.count() == 1)
      result.push_back(&variable);
  return result;
}

RecordedScalars::RecordedScalars(const Program &program,
                                 const std::vector<std::unique_ptr<Rank>> &ranks,
                                 const std::vector<std::string> &symbols) {
  for (const std::string &symbol : symbols)
    for (const Variable *variable : partsOf(program, symbol))
      for (const std::unique_ptr<Rank> &rank : ranks)
        if (rank && variable->addresses.isAt(rank->stage))
          scalars.push_back(
              {variable, rank->index, rank->memory.get(), variable->addresses.at(rank->stage), {}});
}

void RecordedScalars::start() {
  for (Scalar &scalar : scalars)
    scalar.memory->startRead(scalar.address, scalar.bytes, size_t(scalar.variable->localBytes()));
  isOpen = true;
}

void RecordedScalars::finish() {
  if (!isOpen)
    return;
  for (Scalar &scalar : scalars)
    scalar.memory->finishRead(scalar.bytes);
  isOpen = false;
}

const char *RecordedScalars::find(int rank, const RankTensor &variable) const {
  for (const Scalar &scalar : scalars)
    if (scalar.rank == rank && scalar.variable == &variable)
      return scalar.bytes;
  return nullptr;
}

} // namespace psrt
