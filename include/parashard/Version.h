// The version of Parashard, and the commit that it was built from.
#ifndef PARASHARD_VERSION_H
#define PARASHARD_VERSION_H

#include <string>

namespace parashard {

/// Returns the version, as in the file VERSION: "0.1.0".
const char *getVersion();

/// Returns the first 12 digits of the commit. "-dirty" follows if tracked files differ from it.
/// Returns "unknown" if the sources were not a git repository when they were built.
const char *getCommit();

/// Returns both: "0.1.0 (commit c1df032d18cf)".
std::string describeVersion();

} // namespace parashard

#endif
