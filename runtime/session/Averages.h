// Handles the moving averages of parameters that a program compiled with --ema keeps.
#ifndef PSRT_SESSION_AVERAGES_H
#define PSRT_SESSION_AVERAGES_H

#include "runtime/session/Session.h"

namespace psrt {

/// Returns whether the program keeps averages.
bool keepsAverages(const Program &program);
/// Returns whether the program keeps averages and at least one step has updated them. They are zero
/// before the first step.
bool hasAverages(Session &session);

/// Holds the averages in the memory of the parameters, and of their copies in other types, on all
/// ranks.
class AveragesInPlace {
public:
  /// Swaps the averages in. All processes must construct the object together.
  explicit AveragesInPlace(Session &session);
  /// Swaps the parameters back.
  void restore();

private:
  void exchangeAll();
  /// Updates the copies of a parameter after a swap.
  void refreshCopies(int parameter);

  /// A parameter whose average has another type or layout, with its saved elements.
  struct Kept {
    int index;
    std::vector<char> whole;
  };
  Session &session;
  std::vector<std::pair<int, int>> exchanged; ///< parameters and averages of one type and layout
  std::vector<Kept> kept;
};

/// Returns the path of the averages for weights written to `path`: "x.ema.safetensors" for
/// "x.safetensors", "DIR/ema" for the folder "DIR".
std::string averagesPath(const std::string &path);

} // namespace psrt

#endif
