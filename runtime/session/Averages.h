// The moving averages of parameters that a program compiled with --ema keeps beside them.
#ifndef PSRT_SESSION_AVERAGES_H
#define PSRT_SESSION_AVERAGES_H

#include "runtime/session/Session.h"

namespace psrt {

/// Whether the program keeps averages.
bool keepsAverages(const Program &program);
/// Whether it does, and a step has entered them: before the first one they are zero.
bool hasAverages(Session &session);

/// The averages in the place of the parameters and of their copies in other types, on all ranks.
class AveragesInPlace {
public:
  /// Puts them there. All processes make one.
  explicit AveragesInPlace(Session &session);
  /// Puts the parameters back.
  void restore();

private:
  void exchangeAll();
  /// Copies follow their parameter.
  void refreshCopies(int parameter);

  /// A parameter that its average cannot hold.
  struct Kept {
    int parameter;
    std::vector<char> whole;
  };
  Session &session;
  std::vector<std::pair<int, int>> exchanged; ///< parameters and averages of one type and layout
  std::vector<Kept> kept;
};

/// Where averages go when weights go to `path`: "x.ema.safetensors" for "x.safetensors", "DIR/ema"
/// for the folder "DIR".
std::string averagesPath(const std::string &path);

} // namespace psrt

#endif
