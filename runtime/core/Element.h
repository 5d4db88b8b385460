// Single elements of any dtype as numbers, and whole tensors converted from one float to another.
#ifndef PSRT_CORE_ELEMENT_H
#define PSRT_CORE_ELEMENT_H

#include "runtime/core/Program.h"

namespace psrt {

bool isFloat(Dtype dtype);

/// One element of a float dtype as a number.
double loadFloat(const char *at, Dtype dtype);

/// Stores a number as one element: rounded to the nearest (ties to even), in integers cut off.
void storeElement(char *at, Dtype dtype, double value);

/// Converts `count` elements between float dtypes.
void convertFloats(const char *from, Dtype fromDtype, char *to, Dtype toDtype, int64_t count);

} // namespace psrt

#endif
