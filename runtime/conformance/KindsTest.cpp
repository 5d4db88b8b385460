// Tests that the parser converts the names in a program's JSON table to enums, and reports unknown
// names.
#include "runtime/core/Backend.h"
#include "runtime/core/Program.h"
#include "runtime/core/ScalarRange.h"
#include "runtime/data/Samples.h"
#include <array>
#include <gtest/gtest.h>

using namespace psrt;

/// The JSON table of a program, with a field for every enum.
static const std::string kTable = R"({"version": 1, "arena_bytes": 4096, "labels": "same",
  "loss_average": "step+sum", "ignores_rows": "evaluate", "target": "cuda:sm_90a",
  "mesh": [{"name": "pp", "kind": "pipeline", "size": 1}, {"name": "dp", "size": 1}],
  "variables": [{"symbol": "w", "kind": "optimizer", "dtype": "bf16", "shape": [2], "address": 0,
                 "init_distribution": ["uniform", 0, 1]}],
  "inputs": [{"name": "y", "role": "labels", "of_program": "micro_batch", "dtype": "i64",
              "shape": [2], "addresses": [64]}],
  "functions": [{"name": "f", "bases": 2, "code": [
    {"op": "all_reduce", "kind": "max", "dtype": "f32", "in": [0, 0], "out": [1, 0], "count": 1}]}],
  "programs": [{"name": "backward", "code": []}]})";

/// Returns the error message of the parser after replacing `from` by `to` in the table.
static std::string errorWith(const std::string &from, const std::string &to) {
  std::string table = kTable;
  size_t at = table.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  try {
    parseProgram(table.replace(at, from.size(), to));
  } catch (const Error &error) {
    EXPECT_EQ(int(error.status.code), int(StatusCode::BadInput));
    return error.status.message;
  }
  return "";
}

TEST(Kinds, NamesBecomeEnums) {
  Program program = parseProgram(kTable);
  EXPECT_EQ(program.labels, LabelRule::Same);
  EXPECT_EQ(program.lossAverages, (std::vector{LossAverage::Step, LossAverage::Sum}));
  EXPECT_TRUE(program.ignoresRowsIn(EntryKind::Evaluate));
  EXPECT_FALSE(program.ignoresRowsIn(EntryKind::Step));
  EXPECT_EQ(program.mesh.axes[0].kind, AxisKind::Pipeline);
  EXPECT_EQ(program.mesh.axes[1].kind, AxisKind::Data);
  EXPECT_EQ(program.variables[0].kind, VariableKind::Optimizer);
  EXPECT_EQ(program.variables[0].dtype, Dtype::BF16);
  EXPECT_EQ(program.variables[0].distribution, Distribution::Uniform);
  EXPECT_EQ(program.inputs[0].role, InputRole::Labels);
  EXPECT_NE(program.entry(EntryKind::Backward), nullptr);
  EXPECT_EQ(program.entry(EntryKind::Update), nullptr);
  const auto &op = std::get<CollectiveOp>(program.functions[0].code[0].op);
  EXPECT_EQ(op.kind, CollectiveOp::AllReduce);
  EXPECT_EQ(op.reduction, CollectiveOp::Max);
  EXPECT_STREQ(op.name(), "all_reduce");
}

TEST(Kinds, AScalarMayBeAFormOfAnotherScalar) {
  auto addForm = [](const std::string &of, const std::string &symbol) {
    return R"({"symbol": "beta1", "kind": "scalar", "dtype": "f32", "shape": [], "address": 128},
              {"symbol": ")" +
           symbol + R"(", "of": ")" + of +
           R"(", "kind": "scalar", "dtype": "f32", "shape": [], "address": 192}, {"symbol": "w",)";
  };
  std::string table = kTable, from = R"({"symbol": "w",)";
  Program program = parseProgram(
      table.replace(table.find(from), from.size(), addForm("beta1", "beta1.one_minus")));
  EXPECT_TRUE(program.variables[0].isSettable());
  EXPECT_FALSE(program.variables[1].isSettable());
  EXPECT_EQ(program.variables[1].form, ScalarForm::OneMinus);
  EXPECT_EQ(computeForm(ScalarForm::OneMinus, 0.25), 0.75);
  EXPECT_EQ(computeForm(ScalarForm::Log, 1), 0);
  EXPECT_NE(errorWith(from, addForm("beta1", "beta1.exp")).find("one_minus"), std::string::npos);
  EXPECT_NE(errorWith(from, addForm("w", "w.log")).find("which is not a scalar"),
            std::string::npos);
}

TEST(Kinds, AnInputListsTheEntriesThatReadIt) {
  Readers microBatch = parseProgram(kTable).inputs[0].readers;
  for (EntryKind entry : {EntryKind::Step, EntryKind::Forward, EntryKind::Backward})
    EXPECT_TRUE(includes(microBatch, entry));
  for (EntryKind entry : {EntryKind::Evaluate, EntryKind::Update}) {
    EXPECT_FALSE(includes(microBatch, entry));
    EXPECT_TRUE(includes(Readers::All, entry));
  }
  EXPECT_FALSE(includes(Readers::Step, EntryKind::Forward));
}

TEST(Kinds, AValueIsTheSameNumberForEveryElement) {
  std::string table = kTable;
  std::string from = R"(["uniform", 0, 1])";
  Program program =
      parseProgram(table.replace(table.find(from), from.size(), R"(["value", 3, 0])"));
  EXPECT_TRUE(program.variables[0].hasValue);
  EXPECT_EQ(program.variables[0].value, 3);
  EXPECT_FALSE(program.variables[0].distribution);
}

TEST(Kinds, TargetsHaveADeviceAndAnArchitecture) {
  EXPECT_EQ(parseTarget("cpu").device, DeviceKind::Cpu);
  Target target = parseTarget("cuda:sm_80");
  EXPECT_EQ(target.device, DeviceKind::Cuda);
  EXPECT_EQ(target.architecture, 80);
  EXPECT_FALSE(target.isExact);
  EXPECT_FALSE(target.isReplay);
  EXPECT_TRUE(parseTarget("cuda:sm_90a").isExact);
  EXPECT_TRUE(parseTarget("cuda:replay").isReplay);
  for (const char *text :
       {"cuda", "cuda:", "cuda:90", "cuda:sm_", "cuda:sm_90ab", "rocm:gfx90a", ""})
    EXPECT_THROW(parseTarget(text), Error) << text;
}

TEST(Kinds, AnUnknownNameListsTheKnownOnes) {
  EXPECT_EQ(errorWith(R"("kind": "pipeline")", R"("kind": "pipe")"),
            "axis \"pp\" has the kind \"pipe\"; expected data, tensor, context, expert, pipeline "
            "or multiple");
  EXPECT_EQ(
      errorWith(R"("kind": "optimizer")", R"("kind": "state")"),
      "variable \"w\" has the kind \"state\"; expected parameter, buffer, constant, gradient, "
      "optimizer, copy, average, accumulator or scalar");
  EXPECT_EQ(errorWith("uniform", "gamma"),
            "variable \"w\" has the distribution \"gamma\"; expected normal, uniform or value");
  EXPECT_EQ(errorWith("bf16", "bf17"),
            "the field \"dtype\" has the dtype \"bf17\"; expected f32, f64, f16, bf16, i64, i32, "
            "i16, i8, u8, bool, f8e4m3 or f8e5m2");
  EXPECT_EQ(errorWith(R"("role": "labels")", R"("role": "label")"),
            "input \"y\" has the role \"label\"; expected data, labels or cotangent");
  EXPECT_EQ(errorWith("micro_batch", "count"),
            "input \"y\" has the of_program \"count\"; expected step, evaluate, forward, backward, "
            "update, inference or micro_batch");
  EXPECT_EQ(errorWith("\"same\"", "\"shifted\""),
            "the program has the labels \"shifted\"; expected next, same or given");
  EXPECT_EQ(errorWith("step+sum", "step+mean"),
            "the program has the loss_average \"mean\"; expected step, sum or micro-batch");
  EXPECT_EQ(errorWith("\"evaluate\"", "\"evaluate+all\""),
            "the program has the entry \"all\"; expected step, evaluate, forward, "
            "backward, update or inference");
  EXPECT_EQ(errorWith("\"backward\"", "\"back\""),
            "the program has the entry \"back\"; expected step, evaluate, forward, "
            "backward, update or inference");
  EXPECT_EQ(errorWith(R"("kind": "max")", R"("kind": "mean")"),
            "all_reduce has the reduction \"mean\"; expected sum, max or min");
  EXPECT_EQ(errorWith("cuda:sm_90a", "rocm:gfx90a"),
            "the program is compiled for \"rocm:gfx90a\", but this runtime supports cpu or cuda; "
            "compile the model again, and link with the same version of Parashard");
  EXPECT_NE(errorWith("cuda:sm_90a", "cuda:90").find("expected cuda:sm_ and a number"),
            std::string::npos);
  std::string message = errorWith("all_reduce", "broadcast");
  EXPECT_EQ(message.find("unknown instruction \"broadcast\""), 0u) << message;
  EXPECT_NE(message.find("all_gather, all_reduce, all_to_all, attention"), std::string::npos)
      << message;
}

/// Checks that the names and the values of an enum correspond one to one.
template <typename Enum> static void checkNames() {
  for (const EnumName<Enum> &row : EnumNames<Enum>::table) {
    EXPECT_STREQ(nameOf(row.value), row.name);
    EXPECT_EQ(findName<Enum>(row.name), row.value);
  }
  EXPECT_FALSE(findName<Enum>("no such name"));
}

TEST(Kinds, NamesAndValuesAreOneToOne) {
  checkNames<Dtype>();
  checkNames<AxisKind>();
  checkNames<VariableKind>();
  checkNames<Distribution>();
  checkNames<InputRole>();
  checkNames<EntryKind>();
  checkNames<Readers>();
  checkNames<LabelRule>();
  checkNames<LossAverage>();
  checkNames<DeviceKind>();
  checkNames<CollectiveOp::Kind>();
  checkNames<CollectiveOp::Reduction>();
  checkNames<MatmulOp::Buffer>();
  checkNames<MatmulOp::Activation>();
  checkNames<Comm>();
  checkNames<TokenType>();
}

TEST(Kinds, SortsAreChecked) {
  const std::string instruction = R"({"op": "all_reduce", "kind": "max", "dtype": "f32", )"
                                  R"("in": [0, 0], "out": [1, 0], "count": 1})";
  auto errorOf = [&](const std::string &op, const std::string &sizes) {
    return errorWith(instruction, R"({"op": ")" + op + R"(", "x": [0, 0], "indices": [1, 0], )" +
                                      R"("out": [1, 64], )" + sizes + "}");
  };
  auto sizesOf = [](const char *dtype, const char *outer, const char *size, const char *inner) {
    return std::string(R"("dtype": ")") + dtype + R"(", "outer": )" + outer + R"(, "size": )" +
           size + R"(, "inner": )" + inner;
  };
  EXPECT_EQ(errorOf("sort", sizesOf("f32", "2", "4", "1")), "");
  for (const char *huge : {"-1", "17592186044417"}) // 2^44 + 1
    for (auto [outer, size, inner] :
         {std::array{huge, "4", "1"}, std::array{"2", huge, "1"}, std::array{"2", "0", huge}})
      EXPECT_NE(errorOf("sort", sizesOf("f32", outer, size, inner)).find("negative or above 2^44"),
                std::string::npos)
          << outer << " " << size << " " << inner;
  EXPECT_NE(errorOf("sort", sizesOf("f8e4m3", "2", "4", "1")).find("sort of f8e4m3"),
            std::string::npos);
  EXPECT_NE(errorOf("sort_grad", sizesOf("i64", "2", "4", "1")).find("sort_grad of i64"),
            std::string::npos);
  EXPECT_NE(errorOf("sort", R"("dtype": "f32")").find("outer"), std::string::npos);
}
