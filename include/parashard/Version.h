// Declares functions that return the version of Parashard, and the commit that it was built from.
#ifndef PARASHARD_VERSION_H
#define PARASHARD_VERSION_H

#include <string>

namespace parashard {

/// Returns the version, as in the file VERSION: "0.1.0".
const char *getVersion();

/// Returns the first 12 digits of the commit. Appends "-dirty" if tracked files differ from the
/// commit. Returns "unknown" if git was not available at build time, or if the sources were not the
/// root of a git repository.
const char *getCommit();

/// Returns the version and the commit, such as "0.1.0 (commit c1df032d18cf)".
std::string describeVersion();

} // namespace parashard

#endif
