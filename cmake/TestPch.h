// The headers that nearly every unit test of the runtime reads.
#include "RuntimePch.h"
#include <gtest/gtest.h>
