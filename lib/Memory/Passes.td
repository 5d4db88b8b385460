// The passes about memory: what is computed again (level 2), and where everything lies (level 4 to level 5).
#ifndef PARASHARD_LIB_MEMORY_PASSES_TD
#define PARASHARD_LIB_MEMORY_PASSES_TD

include "mlir/Pass/PassBase.td"

def RecomputePass : Pass<"ps-recompute", "::mlir::ModuleOp"> {
  let summary = "computes forward values again where backward needs them, instead of keeping them";
  let description = [{
    The ops that make such a value are cloned before the backward of their segment (`ps.recomputed`, phase backward_input), from
    what is kept or comes from other segments; a chain never leaves its segment. Random ops keep their key, and so draw
    the same numbers. What moves data between ranks is not repeated: its result is kept. Variables are written and
    accumulated once. `mode` says which ops may run again:

    * `full`: all of a segment, so that its inputs alone are kept; not those of the last one, whose backward follows at once.
    * `full+communication`: the same, and what moves data between ranks too.
    * `selective`: what is no contraction and follows from what is kept anyway; one number a row (a norm's) stays.
    * `modules=GLOB,...`: what comes from these modules, or from modules inside of them.
    * `budget=BYTES`: what adds the least time while the arena of no rank is larger. The passes in `then` bring a copy of the
      module to level `placed`, where what a choice takes is read off; `ps.memory_budget` on the module keeps the promise
      (`placed_c6`).

    Writes in words what that adds (`ps.recompute` on the module).
  }];
  let options = [Option<"mode", "mode", "std::string", "\"none\"",
                        "none, selective, full[+communication], modules=GLOB,... or budget=BYTES">,
                 Option<"then", "then", "std::string", "\"\"",
                        "with a budget: the passes from here to level placed">];
  let dependentDialects = ["::parashard::rank::RankDialect"];
}

def PlanMemoryPass : Pass<"ps-plan-memory", "::mlir::ModuleOp"> {
  let summary = "gives every buffer an address in one arena";
  let description = [{
    First fit over lifetimes, in the best of several orders. Variables come first and stay; then the values of the programs, which share
    one region; a class function's scratch is planned once and placed at each of its runs. In a program of
    sections (`rank.section`), what a later section uses lies after that, `slots` times: so many calls of the
    first section may wait for the second (`ps.slots`, `ps.slot_base`, `ps.slot_bytes` on the program). Writes
    `ps.address` on variables, `ps.addresses` and `ps.scratch_address` on the ops of programs, `ps.offsets`,
    `ps.workspace_offset` and `ps.scratch_bytes` in class functions, `ps.arena_bytes` on the module. Each pipeline
    coordinate has an arena of its own, with the variables that its programs name: there `ps.address` and
    `ps.arena_bytes` are lists by coordinate, with -1 for a variable that one does not hold.
    Variables in the host's memory (`ps.host`), and behind them stashed values, have addresses behind the arena, from
    `ps.host_base` on, `ps.host_bytes` in all.
  }];
  let options = [Option<"slots", "slots", "int64_t", "16",
                        "copies of what a section keeps for a later one">];
  let dependentDialects = ["::parashard::ps::PSDialect"];
}

def VerifyPlacedPass : Pass<"ps-verify-placed", "::mlir::ModuleOp"> {
  let summary = "checks what holds at level `placed`";
  let description = [{
    * `placed_c1`: every variable lies in the arena, at a multiple of 64 bytes, apart from the others.
    * `placed_c2`: so does, in its function's scratch, every result that lies there and every workspace, apart from
      all that are in use at the same time.
    * `placed_c3`: so does, after the variables, every value of a program and the scratch of each run.
    * `placed_c4`: what a program keeps for a later section lies in the first of its slots; all slots lie in the arena,
      after what the program does not keep.
    * `placed_c5`: what a pipeline coordinate's programs name lies in its arena.
    * `placed_c6`: no arena is larger than the budget that the module has (`ps.memory_budget`).
    * `placed_c7`: every variable of the host's memory, and every value as long as it is stashed, lies in the host's part of
      the addresses, apart from the others; that part begins behind the arena.
  }];
}

#endif
