// The dialect `rank`: what one pipeline coordinate does, entry by entry.
#ifndef PARASHARD_DIALECTS_RANK_RANK_TD
#define PARASHARD_DIALECTS_RANK_RANK_TD

include "mlir/IR/AttrTypeBase.td"
include "dialects/ps/Base.td"

def Rank_Dialect : Dialect {
  let name = "rank";
  let cppNamespace = "::parashard::rank";
  let summary = "Programs of pipeline coordinates: runs of class functions and communication between them";
  let description = [{
    A `rank.program` is the ordered list of what every rank with one pipeline coordinate does in a step:
    it runs class functions, starts communication and waits for it. Coordinates on other mesh axes
    are run-time integers, so a program is the same for all of them. `rank.run` already stands in the
    stage functions of level 3; the rest exists from level 4 on.
  }];
  let useDefaultTypePrinterParser = 1;
  let dependentDialects = ["::parashard::ps::PSDialect", "::mlir::func::FuncDialect",
                           "::mlir::arith::ArithDialect"];
}

def Rank_TokenType : TypeDef<Rank_Dialect, "Token"> {
  let mnemonic = "token";
  let summary = "communication that was started; waited for exactly once";
}

class Rank_Op<string mnemonic, list<Trait> traits = []> : Op<Rank_Dialect, mnemonic, traits>;

include "dialects/rank/RankOps.td"

#endif
