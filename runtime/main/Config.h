// A file of flags.
#ifndef PSRT_MAIN_CONFIG_H
#define PSRT_MAIN_CONFIG_H

#include "runtime/main/Flags.h"
#include <CLI/CLI.hpp>

namespace psrt {

/// The arguments that a JSON object of flags adds to a command line that `app` has parsed: those of
/// flags that the line does not give, nor gives one that excludes them. Throws CLI::ParseError.
std::vector<std::string> readConfig(const std::string &path, const CLI::App &app);

} // namespace psrt

#endif
