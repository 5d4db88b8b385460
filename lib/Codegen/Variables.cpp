// Writes the variables of the program table: placement, address, initial value.
#include "ClassCode.h"
#include "Program.h"
#include "dialects/ps/FoldSupport.h"
#include "lib/Import/WeightFiles.h"
#include "lib/Partition/SplitUpdate.h"
#include "parashard/Training.h"
#include "llvm/Support/Base64.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::codegen;
using namespace parashard::fusion;
namespace json = llvm::json;

static json::Array toJson(ArrayRef<StringAttr> names) {
  json::Array array;
  for (StringAttr name : names)
    array.push_back(name.getValue());
  return array;
}

/// Returns a factor as JSON. If shards are padded to a multiple (--align-dims), `shard_size` is the
/// padded size of a shard.
static json::Object describeFactor(ps::FactorAttr factor, int64_t size, ps::MeshOp mesh) {
  SmallVector<StringAttr> axes(factor.getAxes());
  int64_t elements = mesh.getShardSize(size, axes);
  for (StringAttr multiple : mesh.getAxesOfKind(ps::AxisKind::Multiple))
    llvm::erase(axes, multiple);
  json::Object object{{"size", size}, {"axes", toJson(axes)}};
  if (elements != mesh.getShardSize(size, axes))
    object["shard_size"] = elements;
  return object;
}

void codegen::describePlacement(json::Object &object, RankedTensorType global,
                                ps::ShardingAttr sharding, ps::MeshOp mesh) {
  RankedTensorType local = sharding ? ps::getLocalType(global, sharding, mesh) : global;
  object["shape"] = json::Array(global.getShape());
  object["local"] = json::Array(local.getShape());
  if (!sharding)
    return;
  json::Array dims, partial;
  for (auto [dim, size] : llvm::zip_equal(sharding.getDims(), global.getShape())) {
    json::Array factors;
    for (ps::FactorAttr factor : dim.getFactors())
      factors.push_back(describeFactor(factor, factor.getSize() ? factor.getSize() : size, mesh));
    dims.push_back(std::move(factors));
  }
  for (ps::PartialAttr axis : sharding.getPartial())
    partial.push_back(axis.getAxis().getValue());
  object["factors"] = std::move(dims);
  object["partial"] = std::move(partial);
}

json::Value codegen::toNumber(double value) {
  if (std::isfinite(value))
    return value;
  return std::isnan(value) ? json::Value("nan") : json::Value(value > 0 ? "inf" : "-inf");
}

namespace {
/// Writes the initial values of variables as JSON. `mode` determines whether the values are in
/// files, in the payload, or provided by the host.
class InitialValues {
public:
  InitialValues(WeightsMode mode, Payload &payload) : mode(mode), payload(payload) {}
  LogicalResult describe(json::Object &object, ps::VariableOp variable);
  const import::WeightFiles &getFiles() const { return files; }

private:
  LogicalResult describeFile(json::Object &object, ps::VariableOp variable, ps::FileAttr file,
                             bool isGiven);

  WeightsMode mode;
  Payload &payload;
  import::WeightFiles files; ///< referenced files
};
} // namespace

/// Describes an initial value from a file. If the host provides the value later, only records the
/// name of the model's tensor, and which part of this tensor the variable contains.
LogicalResult InitialValues::describeFile(json::Object &object, ps::VariableOp variable,
                                          ps::FileAttr file, bool isGiven) {
  StringRef location = file.getLocation().getValue();
  json::Object init{{"file", ""}, {"tensor", import::splitLocation(location).second}};
  if (!isGiven) {
    bool referenced = mode == WeightsMode::Reference;
    auto range = referenced ? files.resolve(location) : payload.add(location);
    if (!range)
      return variable.emitError() << llvm::toString(range.takeError());
    init["file"] = range->path;
    init["offset"] = int64_t(range->offset);
    init["bytes"] = int64_t(range->size);
    if (range->crc)
      init["crc32"] = int64_t(*range->crc);
  }
  if (!file.getShape().empty()) {
    init["file_shape"] = json::Array(file.getShape());
    init["lower"] = json::Array(file.getLower());
    init["upper"] = json::Array(file.getUpper());
  }
  object["init"] = std::move(init);
  return success();
}

static void describeConstant(json::Object &object, ElementsAttr value) {
  if (auto dense = dyn_cast<DenseElementsAttr>(value);
      dense && dense.isSplat() && dense.getNumElements() > 0) {
    object["init_value"] = toNumber(ps::getSplatElement(dense).get(0));
    return;
  }
  object["init_data"] = llvm::encodeBase64(ps::Tensor::fromAttr(value).toBytes());
}

LogicalResult InitialValues::describe(json::Object &object, ps::VariableOp variable) {
  Attribute init = variable.getInitAttr();
  bool isGiven = mode == WeightsMode::None && variable.getKind() == ps::VariableKind::Parameter &&
                 !isa_and_nonnull<ps::DistributionAttr>(init);
  if (isGiven)
    object["given"] = true;
  if (auto file = dyn_cast_or_null<ps::FileAttr>(init))
    return describeFile(object, variable, file, isGiven);
  if (!init || isGiven)
    return success();
  if (auto constant = dyn_cast<ElementsAttr>(init)) {
    describeConstant(object, constant);
    return success();
  }
  if (auto distribution = dyn_cast<ps::DistributionAttr>(init)) {
    object["init_distribution"] =
        json::Array{distribution.getKind(), toNumber(distribution.getFirst().getValueAsDouble()),
                    toNumber(distribution.getSecond().getValueAsDouble())};
    return success();
  }
  return variable.emitOpError() << "has an unsupported form of initial value: " << init;
}

/// Returns the 64-bit FNV-1a hash. The runtime computes the same hash.
static std::string hashBytes(StringRef bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char byte : bytes)
    hash = (hash ^ byte) * 0x100000001b3;
  return llvm::utohexstr(hash, /*LowerCase=*/true, /*Width=*/16);
}

static json::Array describeFiles(const import::WeightFiles &files) {
  json::Array result;
  for (const import::WeightFile &file : files.list()) {
    llvm::SmallString<128> absolute(file.path);
    std::error_code error = llvm::sys::fs::make_absolute(absolute);
    llvm::sys::path::remove_dots(absolute);
    json::Object object{{"path", file.path},
                        {"bytes", int64_t(file.size)},
                        {"hashed", int64_t(file.end.size())},
                        {"hash", hashBytes(file.end)}};
    if (!error &&
        json::isUTF8(absolute)) // otherwise the program searches beside itself and at `path`
      object["absolute"] = absolute.str();
    result.push_back(std::move(object));
  }
  return result;
}

static FailureOr<json::Object> describeVariable(ps::VariableOp variable, ps::MeshOp mesh,
                                                const llvm::StringMap<int64_t> &adders,
                                                InitialValues &initial) {
  RankedTensorType type = variable.getTensorType();
  json::Object object{{"symbol", variable.getSymName()},
                      {"kind", ps::stringifyVariableKind(variable.getKind())},
                      {"dtype", getDtypeName(type.getElementType())},
                      {"frozen", variable.getFrozen()},
                      {"transient", variable.getTransient()}};
  object["address"] =
      describeByCoordinate(variable->getParentOfType<ModuleOp>(), [&](int64_t coordinate) {
        return getVariableAddress(variable, coordinate);
      });
  if (auto to = variable->getAttrOfType<FlatSymbolRefAttr>(kAddsToMark))
    object["adds_to"] = to.getValue();
  auto adder = adders.find(variable.getSymName());
  if (adder != adders.end() && ir::getPipelineSize(variable->getParentOfType<ModuleOp>()) > 1)
    object["added_at"] = adder->second;
  describePlacement(object, type, variable.getSharding(), mesh);
  RankedTensorType local = type;
  if (ps::ShardingAttr sharding = variable.getSharding())
    local = ps::getLocalType(type, sharding, mesh);
  object["bytes"] = ps::getByteSize(local);
  if (auto of = variable.getOfAttr())
    object["of"] = of.getValue();
  if (auto rate = variable->getAttrOfType<FlatSymbolRefAttr>(kRateMark))
    object["lr"] = rate.getValue();
  if (auto type = variable->getAttrOfType<TypeAttr>(kFileTypeMark))
    object["init_dtype"] = getDtypeName(type.getValue());
  if (std::optional<ArrayAttr> names = variable.getNames()) {
    json::Array list;
    for (Attribute name : *names)
      list.push_back(cast<StringAttr>(name).getValue());
    object["names"] = std::move(list);
  }
  if (std::string loc = describeLocation(variable.getLoc()); !loc.empty())
    object["location"] = loc;
  if (failed(initial.describe(object, variable)))
    return failure();
  return object;
}

LogicalResult codegen::writeVariables(ModuleOp module, WeightsMode mode,
                                      const llvm::StringMap<int64_t> &adders, Payload &payload,
                                      json::OStream &json) {
  InitialValues initial(mode, payload);
  ps::MeshOp mesh = ps::getMesh(module);
  bool known = true;
  json.attributeArray("variables", [&] { // one by one, because a growing array copies its elements
    for (auto variable : module.getOps<ps::VariableOp>()) {
      FailureOr<json::Object> object = describeVariable(variable, mesh, adders, initial);
      known = known && succeeded(object);
      if (succeeded(object))
        json.value(std::move(*object));
    }
  });
  json.attribute("files", describeFiles(initial.getFiles()));
  return success(known);
}
