// Declares the entry of ps-plan.
#ifndef PARASHARD_TOOLS_PS_PLAN_PS_PLAN_H
#define PARASHARD_TOOLS_PS_PLAN_PS_PLAN_H

namespace parashard {

/// Runs ps-plan with its command line. Returns its exit status.
int runPlanner(int argc, char **argv);

} // namespace parashard

#endif // PARASHARD_TOOLS_PS_PLAN_PS_PLAN_H
