// Defines the attributes of each descriptor type and checks their consistency.
#include "runtime/testing/cudnn/Descriptors.h"
#include "runtime/testing/cudnn/Execution.h"
#include <algorithm>

namespace psrt::fake {

size_t bytesOf(cudnnBackendAttributeType_t type) {
  switch (type) {
  case CUDNN_TYPE_HANDLE:
  case CUDNN_TYPE_VOID_PTR:
  case CUDNN_TYPE_BACKEND_DESCRIPTOR:
  case CUDNN_TYPE_INT64:
    return 8;
  case CUDNN_TYPE_DATA_TYPE:
  case CUDNN_TYPE_FLOAT:
  case CUDNN_TYPE_CONVOLUTION_MODE:
  case CUDNN_TYPE_HEUR_MODE:
  case CUDNN_TYPE_NUMERICAL_NOTE:
  case CUDNN_TYPE_POINTWISE_MODE:
  case CUDNN_TYPE_REDUCTION_OPERATOR_TYPE:
    return 4;
  case CUDNN_TYPE_BOOLEAN:
  case CUDNN_TYPE_CHAR:
    return 1;
  }
  return 0;
}

int64_t bytesOf(cudnnDataType_t type) {
  switch (type) {
  case CUDNN_DATA_FLOAT:
  case CUDNN_DATA_INT32:
    return 4;
  case CUDNN_DATA_HALF:
  case CUDNN_DATA_BFLOAT16:
    return 2;
  case CUDNN_DATA_BOOLEAN:
    return 1;
  }
  return 0;
}

namespace {

constexpr int64_t kMaxDims = 8;

[[noreturn]] void refuse(cudnnStatus_t status, std::string text) {
  throw Refusal{status, std::move(text)};
}

/// An attribute that a descriptor type has. Most attributes are required.
struct Rule {
  cudnnBackendDescriptorType_t descriptor;
  cudnnBackendAttributeName_t name;
  cudnnBackendAttributeType_t type;
  int64_t most; ///< maximum number of elements
  cudnnBackendDescriptorType_t child =
      CUDNN_BACKEND_TENSOR_DESCRIPTOR; ///< type of descriptor values
  bool isOptional = false;
};

#define ATTENTION(DESCRIPTOR, PREFIX)                                                              \
  {DESCRIPTOR, PREFIX##_QDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1},                                  \
      {DESCRIPTOR, PREFIX##_KDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1},                              \
      {DESCRIPTOR, PREFIX##_VDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1},                              \
      {DESCRIPTOR, PREFIX##_ODESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1},                              \
      {DESCRIPTOR, PREFIX##_STATSDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1},                          \
      {DESCRIPTOR, PREFIX##_SCALEDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1},                          \
      {DESCRIPTOR,                                                                                 \
       PREFIX##_SUBGRAPH,                                                                          \
       CUDNN_TYPE_BACKEND_DESCRIPTOR,                                                              \
       1,                                                                                          \
       CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,                                                    \
       true},                                                                                      \
      {DESCRIPTOR, PREFIX##_SUBGRAPH_INPUT_UID,     CUDNN_TYPE_INT64,                              \
       1,          CUDNN_BACKEND_TENSOR_DESCRIPTOR, true},                                         \
      {DESCRIPTOR, PREFIX##_SUBGRAPH_OUTPUT_UID,    CUDNN_TYPE_INT64,                              \
       1,          CUDNN_BACKEND_TENSOR_DESCRIPTOR, true},

#define OPERATION(DESCRIPTOR, PREFIX, X, W, Y)                                                     \
  {DESCRIPTOR, PREFIX##_ALPHA, CUDNN_TYPE_FLOAT, 1},                                               \
      {DESCRIPTOR, PREFIX##_BETA, CUDNN_TYPE_FLOAT, 1},                                            \
      {DESCRIPTOR, PREFIX##_CONV_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,                           \
       CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR},                                                      \
      {DESCRIPTOR, PREFIX##_##X, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1},                                \
      {DESCRIPTOR, PREFIX##_##W, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1},                                \
      {DESCRIPTOR, PREFIX##_##Y, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1},

/// Returns all rules. The rule for the operations of a graph has no meaningful `child`:
/// checkChildren() accepts every type of operation.
const std::vector<Rule> &getRules() {
  constexpr auto tensor = CUDNN_BACKEND_TENSOR_DESCRIPTOR;
  constexpr auto windows = CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR;
  constexpr auto graph = CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR;
  constexpr auto heuristic = CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR;
  constexpr auto plan = CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR;
  constexpr auto pack = CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR;
  constexpr auto backward = CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR;
  constexpr auto function = CUDNN_BACKEND_POINTWISE_DESCRIPTOR;
  constexpr auto pointwise = CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR;
  constexpr auto matmulOperator = CUDNN_BACKEND_MATMUL_DESCRIPTOR;
  constexpr auto matmul = CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
  constexpr auto reduction = CUDNN_BACKEND_REDUCTION_DESCRIPTOR;
  constexpr auto reduce = CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR;
  constexpr auto reshape = CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR;
  constexpr auto descriptor = CUDNN_TYPE_BACKEND_DESCRIPTOR;
  static const std::vector<Rule> &rules = *new std::vector<Rule>{
      {tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1},
      {tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1},
      {tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1},
      {tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, kMaxDims},
      {tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, kMaxDims},
      {tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, tensor, true},
      {tensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, tensor, true},
      {windows, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1},
      {windows, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1},
      {windows, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1},
      {windows, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, kMaxDims},
      {windows, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, kMaxDims},
      {windows, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, kMaxDims},
      {windows, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, kMaxDims},
      OPERATION(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD, X, W,
                Y) OPERATION(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA, DX, W, DY)
          OPERATION(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER, X, DW, DY)
              ATTENTION(CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR, CUDNN_ATTR_OPERATION_SDPA_FWD)
                  ATTENTION(CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR,
                            CUDNN_ATTR_OPERATION_SDPA_BWD){
                      backward, CUDNN_ATTR_OPERATION_SDPA_BWD_DQDESC, descriptor, 1},
      {backward, CUDNN_ATTR_OPERATION_SDPA_BWD_DKDESC, descriptor, 1},
      {backward, CUDNN_ATTR_OPERATION_SDPA_BWD_DVDESC, descriptor, 1},
      {backward, CUDNN_ATTR_OPERATION_SDPA_BWD_DODDESC, descriptor, 1},
      {function, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1},
      {function, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1},
      {function, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, tensor, true},
      {pointwise, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, descriptor, 1, function},
      {pointwise, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, descriptor, 1},
      {pointwise, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, descriptor, 1},
      {pointwise, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, descriptor, 1, tensor, true},
      {pointwise, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, descriptor, 1, tensor, true},
      {matmulOperator, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1},
      {matmul, CUDNN_ATTR_OPERATION_MATMUL_DESC, descriptor, 1, matmulOperator},
      {matmul, CUDNN_ATTR_OPERATION_MATMUL_ADESC, descriptor, 1},
      {matmul, CUDNN_ATTR_OPERATION_MATMUL_BDESC, descriptor, 1},
      {matmul, CUDNN_ATTR_OPERATION_MATMUL_CDESC, descriptor, 1},
      {reduction, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1},
      {reduction, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1},
      {reduce, CUDNN_ATTR_OPERATION_REDUCTION_DESC, descriptor, 1, reduction},
      {reduce, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, descriptor, 1},
      {reduce, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, descriptor, 1},
      {reshape, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, descriptor, 1},
      {reshape, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, descriptor, 1},
      {graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1},
      {graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, descriptor, 64, graph},
      {heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, descriptor, 1, graph},
      {heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1},
      {plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1},
      {plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, descriptor, 1,
       CUDNN_BACKEND_ENGINECFG_DESCRIPTOR},
      {pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 64},
      {pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 64},
      {pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1}};
  return rules;
}

const Rule *findRule(const Descriptor &descriptor, int name) {
  for (const Rule &rule : getRules())
    if (rule.descriptor == descriptor.type && rule.name == name)
      return &rule;
  return nullptr;
}

void checkChildren(const Rule &rule, const Attribute &attribute) {
  bool takesOperations = rule.name == CUDNN_ATTR_OPERATIONGRAPH_OPS;
  for (const DescriptorRef &child : attribute.descriptors) {
    if (!child->isFinal)
      refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
             "the value of an attribute is a descriptor that is not finalized");
    bool isAny = isPart(child->type) || isOperation(child->type);
    if (takesOperations ? !isAny : child->type != rule.child)
      refuse(CUDNN_STATUS_BAD_PARAM, "the value of an attribute is a descriptor of the wrong type");
  }
}

//===--- consistency of attributes ----------------------------------------===//

bool allAtLeast(const std::vector<int64_t> &values, int64_t least) {
  return std::all_of(values.begin(), values.end(), [&](int64_t value) { return value >= least; });
}

void checkTensor(const Descriptor &d) {
  auto dims = d.list<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  auto strides = d.list<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  int64_t size = bytesOf(d.get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE));
  auto alignment = d.get<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  if (size == 0)
    refuse(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "tensors must be f32, f16, bf16, i32 or bool");
  if (dims.size() != strides.size() || !allAtLeast(dims, 1) || !allAtLeast(strides, 1))
    refuse(CUDNN_STATUS_BAD_PARAM, "dims and strides must be positive and equal in number");
  if (alignment < size || alignment % size != 0 || (alignment & (alignment - 1)) != 0)
    refuse(CUDNN_STATUS_BAD_PARAM,
           "the alignment must be a power of two and a multiple of the element size");
}

void checkWindows(const Descriptor &d) {
  auto dims = d.get<int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
  struct {
    cudnnBackendAttributeName_t name;
    int64_t least;
  } lists[] = {{CUDNN_ATTR_CONVOLUTION_DILATIONS, 1},
               {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 1},
               {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 0},
               {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 0}};
  for (auto [name, least] : lists) {
    auto values = d.list<int64_t>(name);
    if (int64_t(values.size()) != dims || !allAtLeast(values, least))
      refuse(CUDNN_STATUS_BAD_PARAM,
             "windows need a number for each dim (paddings >= 0, others > 0)");
  }
  if (d.get<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE) != CUDNN_DATA_FLOAT ||
      d.get<cudnnConvolutionMode_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE) != CUDNN_CROSS_CORRELATION)
    refuse(CUDNN_STATUS_NOT_SUPPORTED, "the fake supports only cross-correlation in f32");
  if (dims != 2 && dims != 3)
    refuse(CUDNN_STATUS_NOT_SUPPORTED, "windows must have two or three dims");
}

void checkPack(const Descriptor &d) {
  auto ids = d.list<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  if (ids.size() != d.list<void *>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).size())
    refuse(CUDNN_STATUS_BAD_PARAM, "the numbers of addresses and tensors differ");
  std::sort(ids.begin(), ids.end());
  if (std::adjacent_find(ids.begin(), ids.end()) != ids.end())
    refuse(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "a tensor has two addresses");
}

/// Checks a graph by parsing it. Graphs of only pointwise operations are parts of other graphs, and
/// are not parsed.
void checkGraph(const Descriptor &graph) {
  const auto &operations = graph.attributes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).descriptors;
  if (std::any_of(operations.begin(), operations.end(), [](const DescriptorRef &operation) {
        return operation->type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR;
      }))
    Execution::parseGraph(graph);
}

void checkHandles(const Descriptor &plan) {
  const Descriptor &graph = plan.child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
                                .child(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  if (graph.get<void *>(CUDNN_ATTR_OPERATIONGRAPH_HANDLE) !=
      plan.get<void *>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE))
    refuse(CUDNN_STATUS_BAD_PARAM, "the plan's handle differs from its graph's");
}

} // namespace

void Descriptor::set(cudnnBackendAttributeName_t name, Attribute attribute) {
  if (isFinal)
    refuse(CUDNN_STATUS_NOT_INITIALIZED, "attributes cannot be set after finalize");
  const Rule *rule = findRule(*this, name);
  if (!rule)
    refuse(CUDNN_STATUS_BAD_PARAM,
           "the descriptor type has no attribute " + std::to_string(int(name)));
  if (attribute.type != rule->type)
    refuse(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE,
           "attribute " + std::to_string(int(name)) + " has the wrong type");
  if (attribute.count < 1 || attribute.count > rule->most)
    refuse(CUDNN_STATUS_BAD_PARAM,
           "attribute " + std::to_string(int(name)) + " has the wrong number of elements");
  checkChildren(*rule, attribute);
  attributes[name] = std::move(attribute);
}

void Descriptor::finalize() {
  if (isFinal)
    refuse(CUDNN_STATUS_BAD_PARAM, "the descriptor is already finalized");
  bool hasRules = false;
  for (const Rule &rule : getRules())
    if (rule.descriptor == type) {
      hasRules = true;
      if (!rule.isOptional && !attributes.contains(rule.name))
        refuse(CUDNN_STATUS_BAD_PARAM,
               "attribute " + std::to_string(int(rule.name)) + " is not set");
    }
  if (!hasRules)
    refuse(CUDNN_STATUS_BAD_PARAM, "descriptors of this type are finalized by cuDNN");
  if (type == CUDNN_BACKEND_TENSOR_DESCRIPTOR)
    checkTensor(*this);
  else if (type == CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
    checkWindows(*this);
  else if (isOperation(type))
    Execution::parse(*this);
  else if (type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
    checkGraph(*this);
  else if (type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
    checkPack(*this);
  else if (type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
    checkHandles(*this);
  isFinal = true;
}

} // namespace psrt::fake
