// Finding a program's three symbols: in a shared object, or linked into this executable.
#ifndef PSRT_SESSION_SOURCE_H
#define PSRT_SESSION_SOURCE_H

#include "runtime/core/Program.h"

namespace psrt {

/// The symbols of an object loaded by dlopen (`handle`).
ProgramSource sourceOfObject(void *handle, const std::string &path);
/// The symbols of the program that is linked into this executable; `json` is null where none is.
ProgramSource linkedSource();
/// Of the one-rank program that --check compares with.
ProgramSource linkedCheckSource();
/// The file of this executable.
std::string executablePath();

} // namespace psrt

#endif
