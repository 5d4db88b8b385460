// Reads what launchers put into the environment.
#include "runtime/bootstrap/Processes.h"
#include <cstdlib>

namespace psrt {

/// The variables of a launcher: the number of processes, and this one's.
static constexpr struct {
  const char *size, *rank;
} kLaunchers[] = {{"WORLD_SIZE", "RANK"},
                  {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                  {"PMI_SIZE", "PMI_RANK"},
                  {"SLURM_NTASKS", "SLURM_PROCID"}};

/// In a Slurm batch script SLURM_NTASKS is what the job may start; only what srun starts is a task.
static bool isBatchScript() { return std::getenv("SLURM_JOB_ID") && !std::getenv("SLURM_STEP_ID"); }

ProcessPlace findProcessPlace() {
  for (const auto &launcher : kLaunchers) {
    const char *text = std::getenv(launcher.size), *rank = std::getenv(launcher.rank);
    int64_t size = text ? std::strtoll(text, nullptr, 10) : 0;
    bool slurm = std::string(launcher.size) == "SLURM_NTASKS";
    if (size > 1 && !(slurm && (isBatchScript() || !rank)))
      return {rank ? rank : "?", size, launcher.size};
  }
  return {};
}

} // namespace psrt
