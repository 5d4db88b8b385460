// Noting scalars.
#include "runtime/session/RecordedScalars.h"
#include "runtime/session/Session.h"

namespace psrt {

/// The variable of that symbol and its further parts, where several stages add to one.
static std::vector<const Variable *> partsOf(const Program &program, const std::string &symbol) {
  std::vector<const Variable *> result;
  for (const Variable &variable : program.variables)
    if ((variable.symbol == symbol || variable.addsTo == symbol) && variable.placement.count() == 1)
      result.push_back(&variable);
  return result;
}

RecordedScalars::RecordedScalars(const Program &program, const std::vector<std::unique_ptr<Rank>> &ranks,
                         const std::vector<std::string> &symbols) {
  for (const std::string &symbol : symbols)
    for (const Variable *variable : partsOf(program, symbol))
      for (const std::unique_ptr<Rank> &rank : ranks)
        if (rank && variable->addresses.isAt(rank->stage))
          notes.push_back(
              {variable, rank->index, rank->memory.get(), variable->addresses.at(rank->stage), {}});
}

void RecordedScalars::start() {
  for (Note &note : notes)
    note.memory->startRead(note.address, note.bytes, size_t(note.variable->localBytes()));
  isOpen = true;
}

void RecordedScalars::finish() {
  if (!isOpen)
    return;
  for (Note &note : notes)
    note.memory->finishRead(note.bytes);
  isOpen = false;
}

const char *RecordedScalars::find(int rank, const RankTensor &variable) const {
  for (const Note &note : notes)
    if (note.rank == rank && note.variable == &variable)
      return note.bytes;
  return nullptr;
}

} // namespace psrt
