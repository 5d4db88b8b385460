// Declares the parser of an optimizer spec: parameter filter, algorithm and hyperparameters.
#ifndef PARASHARD_LIB_TRAINING_OPTIMIZERSPEC_H
#define PARASHARD_LIB_TRAINING_OPTIMIZERSPEC_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <set>
#include <string>

namespace parashard::training {

/// One optimizer: `[GLOB=|ndim<2=]NAME[(key=value,...)]`, with the keys and defaults of
/// torch.optim.
struct OptimizerSpec {
  enum class Rule { SGD, Adam, AdamW };

  std::string text;            ///< as the user wrote it, for messages
  std::string file;            ///< path of the file with the group; empty: no file
  std::set<std::string> names; ///< exact names of the parameters of a group in a file
  std::string glob;            ///< pattern of parameter names; empty: any name
  /// Operator that compares a parameter's number of dims with `rank`: "<", "<=", ">", ">=" or "==".
  /// Empty: any number of dims. Example: `ndim<2` gives "<" and 2.
  std::string rankPredicate;
  int64_t rank = 0;

  Rule rule = Rule::SGD;
  double lr = 1e-3;
  double weightDecay = 0;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double momentum = 0, dampening = 0;
  bool nesterov = false;

  /// Returns true if a parameter with `rank` dims passes the comparison. Does not check the glob.
  bool acceptsRank(int64_t rank) const;
};

/// Parses one spec. An error begins with the spec. A syntax error names the column (from 1) and the
/// expected text. Example: "'adam(lr=x)', column 9: expected a number".
llvm::Expected<OptimizerSpec> parseOptimizerSpec(llvm::StringRef text);

/// Reads the groups of `--optimizer @FILE.json`: {"groups": [{"optimizer": "sgd(lr=0.1)",
/// "parameters": ["NAME", ...]}, ...]}. Errors are `FlagError`s that name the file and the key.
llvm::Expected<llvm::SmallVector<OptimizerSpec>> readOptimizerFile(llvm::StringRef path);

} // namespace parashard::training

#endif
