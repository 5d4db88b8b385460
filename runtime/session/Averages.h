// Accesses the moving averages of parameters, which a program compiled with --ema has.
#ifndef PSRT_SESSION_AVERAGES_H
#define PSRT_SESSION_AVERAGES_H

#include "runtime/session/Session.h"

namespace psrt {

/// Returns whether the program was compiled with --ema.
bool keepsAverages(const Program &program);
/// Returns whether the program keeps averages and at least one step has updated these averages.
/// Averages are zero before the first step.
bool hasAverages(Session &session);

/// Temporarily replaces the parameters (and their copies in other dtypes) by their averages, on all
/// ranks. Example: to evaluate the averages.
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

  /// A copy of the elements of a parameter whose average has another dtype or layout.
  struct Kept {
    int index;
    std::vector<char> whole;
  };
  Session &session;
  std::vector<std::pair<int, int>>
      exchanged; ///< (parameter, average) pairs of equal dtype and layout
  std::vector<Kept> kept;
};

/// Returns the path of the averages for weights written to `path`: "x.ema.safetensors" for
/// "x.safetensors", "DIR/ema" for the folder "DIR".
std::string averagesPath(const std::string &path);

} // namespace psrt

#endif
