// Defines the dialect `rank`: the programs of pipeline coordinates, one per entry.
#ifndef PARASHARD_DIALECTS_RANK_RANK_TD
#define PARASHARD_DIALECTS_RANK_RANK_TD

include "mlir/IR/AttrTypeBase.td"
include "dialects/ps/Base.td"

def Rank_Dialect : Dialect {
  let name = "rank";
  let cppNamespace = "::parashard::rank";
  let summary = "Programs of pipeline coordinates: runs of class functions, and communication";
  let description = [{
    A `rank.program` lists the actions of all ranks with one pipeline coordinate, in order: runs of
    class functions, starts of communication, and waits. The coordinates on other mesh axes are
    known at run time only, so all these ranks share the program. Stage functions of level 3 already
    contain `rank.run`; the other ops exist from level 4 on.
  }];
  let useDefaultTypePrinterParser = 1;
  let dependentDialects = ["::parashard::ps::PSDialect", "::mlir::func::FuncDialect",
                           "::mlir::arith::ArithDialect"];
}

def Rank_TokenType : TypeDef<Rank_Dialect, "Token"> {
  let mnemonic = "token";
  let summary = "a started communication or copy, which one `rank.wait` completes";
}

class Rank_Op<string mnemonic, list<Trait> traits = []> : Op<Rank_Dialect, mnemonic, traits>;

include "dialects/rank/RankOps.td"

#endif
