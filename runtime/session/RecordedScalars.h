// Scalars of a step as they were when it ended, known to the host when it asks: a device may have
// gone on since.
#ifndef PSRT_SESSION_RECORDEDSCALARS_H
#define PSRT_SESSION_RECORDEDSCALARS_H

#include "runtime/core/Program.h"
#include "runtime/core/RankMemory.h"
#include <memory>
#include <string>
#include <vector>

namespace psrt {

struct Rank;

/// What the ranks of this process hold of some scalars: made once, taken again and again. It must
/// not outlive the ranks.
class RecordedScalars {
public:
  RecordedScalars() = default;
  /// For the variables of one element that have these symbols; others are passed over.
  RecordedScalars(const Program &program, const std::vector<std::unique_ptr<Rank>> &ranks,
              const std::vector<std::string> &symbols);
  RecordedScalars(RecordedScalars &&) = default;
  RecordedScalars &operator=(RecordedScalars &&) = default;
  /// Begins to read what they are after all that has been run so far; waits for nothing.
  void start();
  /// Waits for the values.
  void finish();
  /// The bytes of a rank's variable, as they were at the last start; null where it is not noted.
  const char *find(int rank, const RankTensor &variable) const;

private:
  struct Note {
    const RankTensor *variable;
    int rank;
    RankMemory *memory;
    int64_t address;
    char bytes[8];
  };
  std::vector<Note> notes;
  bool isOpen = false; ///< started, and not finished
};

} // namespace psrt

#endif
