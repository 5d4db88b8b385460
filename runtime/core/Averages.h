// The moving averages of parameters that a program compiled with --ema keeps beside them.
#ifndef PSRT_CORE_AVERAGES_H
#define PSRT_CORE_AVERAGES_H

#include "runtime/core/Session.h"

namespace psrt {

/// Whether the program keeps averages.
bool keepsAverages(const Program &program);
/// Whether it does, and a step has entered them: before the first one they are zero.
bool hasAverages(Session &session);
/// Every parameter that is averaged changes places with its average, on all ranks; twice is back.
void exchangeAverages(Session &session);
/// Where averages go when weights go to `path`: "x.ema.safetensors" for "x.safetensors", "DIR/ema"
/// for the folder "DIR".
std::string averagesPath(const std::string &path);

} // namespace psrt

#endif
