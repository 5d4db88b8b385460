// Imports a `.pt2` archive: reads it, binds its dims, and builds the module of level 0.
#include "dialects/ps/Refusal.h"
#include "lib/Import/Finish.h"
#include "lib/Import/Pt2/GraphConverter.h"
#include "mlir/IR/Verifier.h"
#include "parashard/Import.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace llvm;

namespace parashard::import {
namespace {

/// Reads the only program of an archive.
Expected<ExportedProgram> readProgram(const Archive &archive) {
  const ArchiveEntry *model = nullptr;
  std::string names;
  for (const ArchiveEntry &entry : archive.getEntries()) {
    StringRef name = entry.name;
    if (!name.starts_with("models/") || !name.ends_with(".json"))
      continue;
    names += (names.empty() ? "" : ", ") + name.str();
    if (model)
      return createStringError("'" + archive.getPath() + "' contains several models (" + names +
                               "); save one of them alone");
    model = &entry;
  }
  if (!model)
    return createStringError("'" + archive.getPath() +
                             "' has no models/*.json; expected a file written by torch.export.save "
                             "of torch 2.9 or later");
  Expected<std::string> text = archive.readText(*model);
  if (!text)
    return text.takeError();
  Expected<ExportedProgram> program = parseExportedProgram(*text, archive.getPath());
  if (!program)
    return createStringError("'" + archive.getPath() + "': " + toString(program.takeError()));
  return program;
}

/// Builds the module of one program.
class ModuleBuilder {
public:
  /// `buffers`: see ImportOptions.
  ModuleBuilder(MLIRContext &context, const ExportedProgram &program, const SizeBinding &sizes,
                const std::vector<std::string> &buffers)
      : program(program), buffers(buffers), b(&context), table(getConverterTable()),
        graph(program.graph, sizes, table, b) {}

  OwningOpRef<ModuleOp> build(const Archive &archive) {
    MLIRContext *context = b.getContext();
    Location loc = NameLoc::get(b.getStringAttr(archive.getPath()));
    OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
    (*module)->setAttr(kLevelMark, ps::LevelAttr::get(context, ps::Level::Imported));
    b.setInsertionPointToEnd(module->getBody());
    llvm::StringSet<> outputs = getOutputs();
    std::string missing = describeUnsupported(program.graph, outputs, table, graph.getSizes());
    if (!missing.empty())
      return emitError(loc) << missing, OwningOpRef<ModuleOp>();
    Expected<VariableTable> created = VariableTable::create(program, archive, findVariables(), b);
    if (!created)
      return emitError(loc) << llvm::toString(created.takeError()), OwningOpRef<ModuleOp>();
    variables = std::move(*created);
    if (failed(buildFunction(loc, outputs)))
      return {};
    removeDead(*module);
    numberRandomOps(*module);
    if (failed(checkText(*module)) || failed(verify(*module)))
      return {};
    return module;
  }

private:
  /// Returns the names of the values to compute: user outputs, mutations, and state that is written
  /// in place.
  llvm::StringSet<> getOutputs() {
    llvm::StringSet<> names;
    for (const OutputSpec &output : program.outputs)
      if (!output.name.empty())
        names.insert(output.name);
    for (const auto &entry : findWritten())
      names.insert(entry.first());
    return names;
  }

  /// Returns the inputs of the graph that are state (parameters, buffers, constants) and are
  /// written.
  llvm::StringSet<> findWritten() {
    llvm::StringSet<> written;
    for (const OutputSpec &output : program.outputs)
      for (const InputSpec &input : program.inputs)
        if (isMutation(output) && input.target == output.target && input.kind != InputSpec::User)
          written.insert(input.name);
    llvm::StringSet<> state;
    for (const InputSpec &input : program.inputs)
      if (input.kind != InputSpec::User)
        state.insert(input.name);
    for (const auto &name : state)
      if (graph.getViews().isWritten(name.first()))
        written.insert(name.first());
    return written;
  }

  /// Returns the inputs of the graph that are state and must stay variables: the graph or another
  /// entry writes them.
  llvm::StringSet<> findVariables() {
    llvm::StringSet<> found = findWritten();
    for (const InputSpec &input : program.inputs)
      if (input.kind == InputSpec::Buffer && llvm::is_contained(buffers, input.target))
        found.insert(input.name);
    return found;
  }

  static bool isMutation(const OutputSpec &output) {
    return output.kind == OutputSpec::BufferMutation ||
           output.kind == OutputSpec::ParameterMutation;
  }

  LogicalResult buildFunction(Location loc, const llvm::StringSet<> &outputs) {
    SmallVector<Type> inputTypes;
    SmallVector<const InputSpec *> inputs;
    for (const InputSpec &input : program.inputs) {
      if (input.kind != InputSpec::User)
        continue;
      Expected<RankedTensorType> type = graph.getType(input.name);
      if (!type)
        return emitError(loc) << "input " << llvm::toString(type.takeError());
      inputTypes.push_back(*type);
      inputs.push_back(&input);
    }
    auto function = func::FuncOp::create(b, loc, "forward", b.getFunctionType(inputTypes, {}));
    Block *body = function.addEntryBlock();
    b.setInsertionPointToStart(body);
    for (auto [i, input] : enumerate(inputs)) {
      function.setArgAttr(i, kNameMark, b.getStringAttr(input->name));
      body->getArgument(i).setLoc(NameLoc::get(b.getStringAttr(input->name)));
      graph.define(input->name, body->getArgument(i));
    }
    defineState();
    if (failed(graph.run(outputs)))
      return failure();
    writeState();
    return finishFunction(function, loc);
  }

  /// Creates reads of variables, and constants, at the start of the function. Unused ops are
  /// removed later.
  void defineState() {
    for (const InputSpec &input : program.inputs) {
      Location loc = NameLoc::get(b.getStringAttr(input.target));
      if (ps::VariableOp variable = variables.getVariable(input.name))
        graph.define(input.name, ps::ReadOp::create(
                                     b, loc, variable.getTensorType(),
                                     FlatSymbolRefAttr::get(variable.getSymNameAttr()), Value()));
      else if (ElementsAttr constant = variables.getConstant(input.name))
        graph.define(input.name, ps::ConstantOp::create(b, loc, constant));
      else if (RankedTensorType triangle = variables.getTriangle(input.name))
        graph.define(input.name, buildTriangle(loc, triangle));
      else
        continue;
      initial[input.name] = graph.lookup(input.name);
    }
  }

  Value buildTriangle(Location loc, RankedTensorType type) {
    auto indexType = type.clone(b.getI64Type());
    Value row = ps::IotaOp::create(b, loc, indexType, type.getRank() - 2);
    Value column = ps::IotaOp::create(b, loc, indexType, type.getRank() - 1);
    return ps::CompareOp::create(b, loc, type, ps::Predicate::Le, column, row);
  }

  /// Writes the variables that the graph changes. The new value is an output of the graph, or the
  /// result of in-place writes.
  void writeState() {
    llvm::StringMap<Value> values;
    for (const InputSpec &input : program.inputs)
      if (Value before = initial.lookup(input.name); before && graph.lookup(input.name) != before)
        values[input.target] = graph.lookup(input.name);
    for (const OutputSpec &output : program.outputs)
      if (isMutation(output))
        values[output.target] = findResult(output.name);
    for (const InputSpec &input : program.inputs)
      if (ps::VariableOp variable = variables.getVariable(input.name))
        if (Value value = values.lookup(input.target))
          ps::WriteOp::create(b, value.getLoc(), FlatSymbolRefAttr::get(variable.getSymNameAttr()),
                              Value(), value, Value());
  }

  Value findResult(const std::string &name) {
    Value value = graph.lookup(name);
    if (!value)
      undefined = name;
    return value;
  }

  LogicalResult finishFunction(func::FuncOp function, Location loc) {
    SmallVector<Value> results;
    SmallVector<std::string> labels;
    for (const OutputSpec &output : program.outputs)
      if (output.kind == OutputSpec::User && !output.name.empty()) {
        results.push_back(findResult(output.name));
        labels.push_back(output.label);
      }
    if (!undefined.empty())
      return emitError(loc) << "the model returns or writes '" << undefined
                            << "', which no node defines; export it again";
    if (results.empty())
      return emitError(loc) << "the model has no tensor output; return at least one tensor";
    returnResults(b, function, results, labels);
    return success();
  }

  const ExportedProgram &program;
  const std::vector<std::string> &buffers;
  OpBuilder b;
  ConverterTable table;
  GraphConverter graph;
  VariableTable variables;
  llvm::StringMap<Value> initial;
  std::string undefined; ///< name of a result without a value; empty: none
};

} // namespace

OwningOpRef<ModuleOp> importPt2(MLIRContext &context, StringRef path, const ImportOptions &options,
                                std::vector<std::string> &notes) {
  using namespace import;
  context.loadDialect<ps::PSDialect, func::FuncDialect>();
  auto report = [&](Error error) {
    ps::reportError(UnknownLoc::get(&context), std::move(error));
    return OwningOpRef<ModuleOp>();
  };
  Expected<Archive> archive = Archive::open(path);
  if (!archive)
    return report(archive.takeError());
  Expected<ExportedProgram> program = readProgram(*archive);
  if (!program)
    return report(program.takeError());
  Expected<SizeBinding> sizes = SizeBinding::bind(
      *program, {options.dims, options.batch, options.batchDims, options.batchFactor}, notes);
  if (!sizes)
    return report(sizes.takeError());
  return ModuleBuilder(context, *program, *sizes, options.buffers).build(*archive);
}

} // namespace parashard::import
