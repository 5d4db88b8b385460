// The headers that nearly every unit test of the runtime includes.
#include "RuntimePch.h"
#include <gtest/gtest.h>
