// Declares the label of a run, by which traces name the run.
#ifndef PARASHARD_LIB_IR_RUNLABEL_H
#define PARASHARD_LIB_IR_RUNLABEL_H

#include "dialects/rank/Rank.h"

namespace parashard::ir {

/// Returns the label of a run: its class function and its segment. Example: "block.forward 3".
std::string getRunLabel(rank::RunOp run);

} // namespace parashard::ir

#endif
