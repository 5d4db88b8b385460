// Provides the folder for a fuzz target's input. Each process has its own folder, in memory if
// possible.
#ifndef PARASHARD_FUZZ_SCRATCH_H
#define PARASHARD_FUZZ_SCRATCH_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace fuzz {

/// Returns the folder, which is removed when the process exits normally.
const std::string &getFolder();

/// Writes a file into the folder and returns its path.
std::string writeFile(const std::string &name, const void *data, size_t size);

/// While an object of this class exists, opening a file outside of the folder aborts the process.
/// Readers must not follow paths in their input to other locations.
class StayInside {
public:
  StayInside();
  ~StayInside();
};

} // namespace fuzz

#endif
