// Finds a program's symbols in a shared object or in this executable.
#ifndef PSRT_SESSION_SOURCE_H
#define PSRT_SESSION_SOURCE_H

#include "runtime/core/Program.h"

namespace psrt {

/// Returns the program in a shared object. `handle` comes from dlopen.
ProgramSource sourceOfObject(void *handle, const std::string &path);
/// Returns the program linked into this executable; `json` is null if there is none.
ProgramSource linkedSource();
/// Returns the one-rank program for --check; `json` is null if there is none.
ProgramSource linkedCheckSource();
/// Returns the path of this executable.
std::string executablePath();

} // namespace psrt

#endif
