// Where a fuzz target puts its input: a folder of this process alone, in memory where there is
// some.
#ifndef PARASHARD_FUZZ_SCRATCH_H
#define PARASHARD_FUZZ_SCRATCH_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace fuzz {

/// The folder; it and what is in it go away when the process ends in good order.
const std::string &getFolder();

/// Writes a file into the folder; its path.
std::string writeFile(const std::string &name, const void *data, size_t size);

/// While one lives, opening a file outside of the folder ends the process: readers must not follow
/// names in their input to other places.
class StayInside {
public:
  StayInside();
  ~StayInside();
};

} // namespace fuzz

#endif
