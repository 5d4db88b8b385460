// Records scalars at the end of a step. The host reads them later, when a device may already run
// the next step.
#ifndef PSRT_SESSION_RECORDEDSCALARS_H
#define PSRT_SESSION_RECORDEDSCALARS_H

#include "runtime/core/Program.h"
#include "runtime/core/RankMemory.h"
#include <memory>
#include <string>
#include <vector>

namespace psrt {

struct Rank;

/// The values of some scalars on the ranks of this process. Construct once, then call `start` after
/// each step. Must not outlive the ranks.
class RecordedScalars {
public:
  RecordedScalars() = default;
  /// For each symbol, records the variable of this name. In a pipeline, each stage that adds to a
  /// scalar may have a variable of its own; these variables are recorded, too. Ignores variables of
  /// several elements, and symbols without a variable.
  RecordedScalars(const Program &program, const std::vector<std::unique_ptr<Rank>> &ranks,
                  const std::vector<std::string> &symbols);
  RecordedScalars(RecordedScalars &&) = default;
  RecordedScalars &operator=(RecordedScalars &&) = default;
  /// Submits reads of the values, and does not wait. The reads return the values after all work
  /// that was submitted before this call.
  void start();
  /// Waits for the values.
  void finish();
  /// Returns the value of a rank's variable at the last `start`, or null if the variable is not
  /// recorded.
  const char *find(int rank, const RankTensor &variable) const;

private:
  struct Scalar {
    const RankTensor *variable;
    int rank;
    RankMemory *memory;
    int64_t address;
    char bytes[8];
  };
  std::vector<Scalar> scalars;
  bool isOpen = false; ///< started but not finished
};

} // namespace psrt

#endif
