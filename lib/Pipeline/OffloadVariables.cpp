// Keeps variables in host memory if only the update uses them. Fetches these variables to the
// device for the update.
#include "Offload.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::pipeline {

namespace {
RankedTensorType getLocalTensorType(VariableOp variable) {
  MeshOp mesh = getMesh(variable);
  ShardingAttr sharding = variable.getSharding();
  return mesh && sharding ? getLocalType(variable.getTensorType(), sharding, mesh)
                          : variable.getTensorType();
}

bool isUpdate(rank::RunOp run, const SymbolTable &symbols) {
  auto phase = symbols.lookup<func::FuncOp>(run.getCallee())->getAttrOfType<PhaseAttr>(kPhaseMark);
  return phase && phase.getValue() == Phase::Update;
}

//===--- offloaded variables ----------------------------------------------===//

/// Finds the variables that can be offloaded: in each program, at most one op uses the variable,
/// and this op is a run of the update.
class VariableFinder {
public:
  VariableFinder(ModuleOp module, const SymbolTable &symbols) : module(module), symbols(symbols) {}

  llvm::SetVector<StringAttr> find() {
    for (auto program : module.getOps<rank::ProgramOp>()) {
      llvm::DenseSet<StringAttr> ofProgram;
      for (Operation &op : program.getBody().front())
        recordUses(op, ofProgram);
    }
    llvm::SetVector<StringAttr> found;
    for (auto variable : module.getOps<VariableOp>())
      if (isOfUpdate(variable) && used.contains(variable.getSymNameAttr()) &&
          !staying.contains(variable.getSymNameAttr()))
        found.insert(variable.getSymNameAttr());
    return found;
  }

private:
  void recordUses(Operation &op, llvm::DenseSet<StringAttr> &ofProgram) {
    if (auto read = dyn_cast<ReadOp>(op))
      staying.insert(read.getVariableAttr().getAttr());
    if (auto write = dyn_cast<WriteOp>(op))
      staying.insert(write.getVariableAttr().getAttr());
    auto run = dyn_cast<rank::RunOp>(op);
    if (!run)
      return;
    for (FlatSymbolRefAttr symbol : run.getVariableSymbols()) {
      used.insert(symbol.getAttr());
      if (!isUpdate(run, symbols) || !ofProgram.insert(symbol.getAttr()).second)
        staying.insert(symbol.getAttr());
    }
  }

  /// Returns true for parameters, optimizer state and averages. Excludes scalars, which are too
  /// small to be worth a copy.
  static bool isOfUpdate(VariableOp variable) {
    VariableKind kind = variable.getKind();
    return (kind == VariableKind::Parameter || kind == VariableKind::Optimizer ||
            kind == VariableKind::Average) &&
           variable.getTensorType().getRank() > 0;
  }

  ModuleOp module;
  const SymbolTable &symbols;
  llvm::DenseSet<StringAttr> used, staying;
};

//===--- pieces -----------------------------------------------------------===//

/// Runs whose variables are fetched together.
struct Piece {
  SmallVector<rank::RunOp> runs;
  SmallVector<Attribute> variables;
  SmallVector<Type> types; ///< types of the references to the fetched copies
  int64_t bytes = 0;
  rank::FetchOp fetch;
  rank::OffloadOp offload;
};

/// A part of a program that the host calls separately (`rank.section`). `runs` are the section's
/// update runs that use variables in host memory.
struct Section {
  /// Last send, receive or run of another phase before the first of `runs`. If there is none, the
  /// `rank.section` that begins the section; null: the start of the program.
  Operation *before = nullptr;
  Operation *end = nullptr; ///< next section; null: the program's end
  SmallVector<rank::RunOp> runs;
};

/// Inserts the copies between host and device memory into a program.
class CopyInserter {
public:
  CopyInserter(ModuleOp module, const SymbolTable &symbols,
               const llvm::SetVector<StringAttr> &variables, int64_t pieceBytes)
      : symbols(symbols), variables(variables), pieceBytes(pieceBytes),
        builder(module.getContext()) {}

  void run(rank::ProgramOp program) {
    for (Section &section : findSections(program)) {
      std::vector<Piece> pieces = cut(section.runs);
      for (size_t i = 0; i < pieces.size(); ++i)
        insertCopies(section, pieces, i);
      finish(program, section, pieces);
    }
  }

private:
  bool isInHost(FlatSymbolRefAttr symbol) const { return variables.contains(symbol.getAttr()); }

  std::vector<Section> findSections(rank::ProgramOp program) {
    std::vector<Section> sections(1);
    for (Operation &op : program.getBody().front()) {
      Section &section = sections.back();
      auto run = dyn_cast<rank::RunOp>(op);
      if (isa<rank::SectionOp>(op)) {
        section.end = &op;
        sections.emplace_back().before = &op;
      } else if (isa<rank::SendOp, rank::RecvOp>(op) || (run && !isUpdate(run, symbols))) {
        if (section.runs.empty())
          section.before = &op;
      } else if (run && llvm::any_of(run.getVariableSymbols(),
                                     [&](auto symbol) { return isInHost(symbol); })) {
        section.runs.push_back(run);
      }
    }
    llvm::erase_if(sections, [](const Section &section) { return section.runs.empty(); });
    return sections;
  }

  void add(Piece &piece, rank::RunOp run) {
    piece.runs.push_back(run);
    for (FlatSymbolRefAttr symbol : run.getVariableSymbols())
      if (isInHost(symbol)) {
        RankedTensorType type = getLocalTensorType(symbols.lookup<VariableOp>(symbol.getValue()));
        piece.variables.push_back(symbol);
        piece.types.push_back(RefType::get(run.getContext(), type));
        piece.bytes += getByteSize(type);
      }
  }

  std::vector<Piece> cut(ArrayRef<rank::RunOp> runs) {
    Piece all;
    for (rank::RunOp run : runs)
      add(all, run);
    int64_t least = std::min(pieceBytes, all.bytes / 8);
    std::vector<Piece> pieces;
    for (rank::RunOp run : runs) {
      if (pieces.empty() || pieces.back().bytes >= least)
        pieces.emplace_back();
      add(pieces.back(), run);
    }
    return pieces;
  }

  void fetch(Piece &piece) {
    piece.fetch = rank::FetchOp::create(builder, piece.runs.front().getLoc(), piece.types,
                                        rank::TokenType::get(builder.getContext()),
                                        builder.getArrayAttr(piece.variables));
  }

  void wait(Operation *started) {
    rank::WaitOp::create(builder, started->getLoc(), started->getResults().back());
  }

  void setInsertionPointAfter(rank::ProgramOp program, Operation *op) {
    if (op)
      builder.setInsertionPointAfter(op);
    else
      builder.setInsertionPointToStart(&program.getBody().front());
  }

  /// Inserts the copies around the runs of piece `at`. Before these runs, waits for the offload of
  /// piece `at - 2`, fetches piece `at + 1`, and waits for the fetch of piece `at`. After the runs,
  /// offloads piece `at`. Piece 0 is fetched after `section.before`.
  void insertCopies(Section &section, std::vector<Piece> &pieces, size_t at) {
    Piece &piece = pieces[at];
    if (at == 0) {
      setInsertionPointAfter(piece.runs.front()->getParentOfType<rank::ProgramOp>(),
                             section.before);
      fetch(piece);
    }
    builder.setInsertionPoint(piece.runs.front());
    if (at >= 2)
      wait(pieces[at - 2].offload);
    if (at + 1 < pieces.size())
      fetch(pieces[at + 1]);
    wait(piece.fetch);
    for (auto [symbol, staged] : llvm::zip(piece.variables, piece.fetch.getResults()))
      for (rank::RunOp run : piece.runs)
        if (llvm::is_contained(run.getVariableSymbols(), symbol))
          run.getStagedMutable().append(Value(staged));
    builder.setInsertionPointAfter(piece.runs.back());
    piece.offload = rank::OffloadOp::create(builder, piece.runs.back().getLoc(),
                                            rank::TokenType::get(builder.getContext()),
                                            piece.fetch.getResults());
  }

  /// Waits for the last copies before the section ends.
  void finish(rank::ProgramOp program, Section &section, std::vector<Piece> &pieces) {
    if (section.end)
      builder.setInsertionPoint(section.end);
    else
      builder.setInsertionPointToEnd(&program.getBody().front());
    for (size_t at = pieces.size() < 2 ? 0 : pieces.size() - 2; at < pieces.size(); ++at)
      wait(pieces[at].offload);
  }

  const SymbolTable &symbols;
  const llvm::SetVector<StringAttr> &variables;
  int64_t pieceBytes;
  OpBuilder builder;
};

} // namespace

bool offloadVariables(ModuleOp module, int64_t pieceBytes) {
  SymbolTable symbols(module);
  llvm::SetVector<StringAttr> variables = VariableFinder(module, symbols).find();
  for (StringAttr name : variables)
    symbols.lookup<VariableOp>(name)->setAttr(kHostMark, UnitAttr::get(module.getContext()));
  if (!variables.empty())
    for (auto program : module.getOps<rank::ProgramOp>())
      CopyInserter(module, symbols, variables, pieceBytes).run(program);
  return !variables.empty();
}

} // namespace parashard::pipeline
