#include "dialects/ps/Ps.h"
