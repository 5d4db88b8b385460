// Tests the table of flags, and that docs/program-flags.md is up to date. To rewrite this page, run
// `psrt-flags-test --write`.
#include "runtime/main/Flags.h"
#include "runtime/main/Config.h"
#include "shared/RunFlags.h"
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

using namespace psrt;

namespace {

/// The flags of a program: their table, and the values after parsing.
struct Parsed {
  Flags flags;
  FlagTable table{""};
  Parsed() { addFlags(table, flags); }
  /// Parses and checks the arguments. Returns the error message; "" on success.
  std::string parse(const std::vector<std::string> &arguments) {
    try {
      table.parse(arguments);
      table.checkGiven();
    } catch (const CLI::ParseError &error) {
      return error.what();
    }
    return "";
  }
};

std::string errorOf(const std::vector<std::string> &arguments) { return Parsed().parse(arguments); }

/// Escapes characters that are markup in Markdown tables and HTML.
std::string escape(const std::string &text) {
  std::string result;
  for (char c : text)
    result += (c == '|' || c == '<' || c == '*' ? "\\" : "") + std::string(1, c);
  return result;
}

/// Returns the text in the last column of the page: rules such as "needs --save".
std::string describeRules(const FlagTable::Entry &entry) {
  std::vector<std::string> rules, needed;
  for (const char *name : entry.info.needs)
    needed.push_back("`--" + std::string(name) + "`");
  if (!needed.empty())
    rules.push_back("needs " + joinNames(needed));
  if (entry.info.excludes)
    rules.push_back("not with `--" + std::string(entry.info.excludes) + "`");
  for (const FlagConflict &conflict : entry.info.conflicts)
    rules.push_back("not with `--" + std::string(conflict.other) + "`");
  if (entry.info.isOfProcess)
    rules.emplace_back("may differ between ranks");
  if (!entry.info.isInRunFile)
    rules.emplace_back("not in a run file");
  std::string text;
  for (const std::string &rule : rules)
    text += (text.empty() ? "" : "; ") + rule;
  return text;
}

std::string makePage() {
  Parsed parsed;
  std::string page = "# Flags of a compiled program\n\n"
                     "`./OUT --help` prints these flags, and [running.md](running.md) explains "
                     "them. A run file\n(`--config`) may set them too. `psrt-flags-test --write` "
                     "makes this page from\n`runtime/main/Flags.cpp`.\n";
  std::string group;
  for (const FlagTable::Entry &entry : parsed.table.getEntries()) {
    if (group != entry.group)
      page +=
          "\n## " + (group = entry.group) + "\n\n| flag | what it does | rules |\n|---|---|---|\n";
    std::string rules = describeRules(entry);
    page += "| `" + escape(entry.describe()) + "` | " + escape(entry.info.help) + " |" +
            (rules.empty() ? "" : " " + rules) + " |\n";
  }
  return page;
}

/// Writes a run file and returns the arguments that it adds to the command line.
std::vector<std::string> readRunFile(const std::string &text,
                                     const std::vector<std::string> &commandLine) {
  std::filesystem::path path = std::filesystem::temp_directory_path() /
                               ("psrt-flags-test-" + std::to_string(getpid()) + ".json");
  std::ofstream(path) << text;
  Parsed parsed;
  parsed.table.parse(commandLine);
  std::vector<std::string> added = readConfig(path, parsed.table);
  std::filesystem::remove(path);
  return added;
}

} // namespace

TEST(Flags, ThePageIsMadeFromTheTable) {
  std::ifstream file(PSRT_FLAG_PAGE);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), makePage()) << "rewrite the page with: psrt-flags-test --write";
}

TEST(Flags, EveryRuleNamesAFlagOfTheTable) {
  Parsed parsed;
  for (const FlagTable::Entry &entry : parsed.table.getEntries()) {
    std::vector<const char *> others = entry.info.needs;
    for (const FlagConflict &conflict : entry.info.conflicts)
      others.push_back(conflict.other);
    if (entry.info.excludes)
      others.push_back(entry.info.excludes);
    for (const char *other : others)
      EXPECT_NE(parsed.table.find(other), nullptr) << entry.info.name << " names " << other;
  }
}

TEST(Flags, ValuesReachTheirMembers) {
  Parsed parsed;
  EXPECT_EQ(parsed.parse({"--ranks",  "010",    "--comm",     "tcp",         "--data",
                          "a,b",      "--data", "c",          "--data-type", "uint32",
                          "--labels", "same",   "--fill",     "x=2",         "--progress",
                          "bar",      "--set",  "*.w=lr=0.5", "--steps",     "3"}),
            "");
  const Flags &flags = parsed.flags;
  EXPECT_EQ(flags.ranks, 10);
  EXPECT_EQ(flags.comm, Comm::Tcp);
  EXPECT_EQ(flags.data.files, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(flags.data.type, TokenType::Uint32);
  EXPECT_EQ(flags.data.labels, LabelRule::Same);
  EXPECT_EQ(flags.data.fills.at(0).second, 2);
  EXPECT_EQ(flags.progress, ProgressStyle::Bar);
  EXPECT_EQ(flags.set.at(0).glob, "*.w");
  EXPECT_EQ(flags.steps, 3);
  EXPECT_FALSE(flags.epochs);
}

TEST(Flags, AnUnknownNameListsTheKnownOnes) {
  EXPECT_EQ(errorOf({"--comm", "udp"}), "--comm: expected local, mpi, tcp or nccl, not 'udp'");
  EXPECT_EQ(errorOf({"--labels", "given"}), "--labels: expected next or same, not 'given'");
  EXPECT_EQ(errorOf({"--data-type", "int8"}),
            "--data-type: expected uint8, uint16 or uint32, not 'int8'");
  EXPECT_EQ(errorOf({"--progress", "dots"}),
            "--progress: expected auto, bar, lines or none, not 'dots'");
}

TEST(Flags, AMisspeltFlagIsNamed) {
  EXPECT_EQ(errorOf({"--stpes", "3"}), "unknown flag --stpes; did you mean --steps?");
  EXPECT_EQ(errorOf({"--steps", "3", "--eval-stepz=4"}),
            "unknown flag --eval-stepz; did you mean --eval-steps?");
  EXPECT_EQ(errorOf({"-d", "x"}), "unknown flag -d");
  EXPECT_EQ(errorOf({"--optimizer", "sgd"}), "unknown flag --optimizer");
  EXPECT_EQ(errorOf({"--steps", "3", "4"}),
            "unexpected argument \"4\"; every argument is a flag or the value of one");
  EXPECT_EQ(errorOf({"--set=lr=-1"}).substr(0, 5), "--set"); // a value is not a flag
}

TEST(Flags, TheCompilerKnowsTheFlagsOfPrograms) {
  Parsed parsed;
  std::vector<std::string> names;
  for (const FlagTable::Entry &entry : parsed.table.getEntries())
    names.emplace_back(entry.info.name);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, std::vector<std::string>(std::begin(parashard::kRunFlags),
                                            std::end(parashard::kRunFlags)));
}

TEST(Flags, HaveOneValueEach) {
  EXPECT_EQ(errorOf({"--steps"}), "--steps needs a value: --steps N");
  EXPECT_EQ(errorOf({"--data"}), "--data needs a value: --data FILE");
  EXPECT_EQ(errorOf({"--steps", "1", "--steps", "2"}),
            "--steps is given several times; give it once");
}

TEST(Flags, ANumberHasARange) {
  EXPECT_EQ(errorOf({"--keep", "0", "--save", "x"}),
            "--keep: must be at least 1 and a whole number, not \"0\"");
  EXPECT_EQ(errorOf({"--threads", "1025"}),
            "--threads: must be at most 1024 and a whole number, not \"1025\"");
}

TEST(Flags, AFlagMayNeedAnother) {
  EXPECT_EQ(errorOf({"--keep", "2"}), "--keep needs --save FOLDER");
  EXPECT_EQ(errorOf({"--keep", "2", "--save", "x"}), "");
  EXPECT_EQ(errorOf({"--eval-steps", "2"}), "--eval-steps needs --eval-data FILE or --eval");
  EXPECT_EQ(errorOf({"--eval-steps", "2", "--eval"}), "");
  EXPECT_EQ(errorOf({"--eval-steps", "2", "--eval-data", "x.bin"}), "");
}

TEST(Flags, FlagsMayConflict) {
  EXPECT_EQ(errorOf({"--losses", "l", "--eval"}),
            "--losses is for training, and --eval only evaluates; remove one of them");
  EXPECT_EQ(errorOf({"--losses", "l", "--eval=false"}), "");
  EXPECT_EQ(errorOf({"--load", "l", "--weights", "w"}),
            "--load and --weights both give the initial weights; remove one of them");
  EXPECT_EQ(errorOf({"--steps", "1", "--epochs", "1"}), "--epochs excludes --steps");
}

TEST(Flags, OnlyFlagsOfTheJobAreCompared) {
  Parsed parsed;
  EXPECT_EQ(parsed.parse({"--threads", "2", "--steps", "7", "--quiet", "--data", "b,a"}), "");
  EXPECT_EQ(parsed.table.listGiven(), (std::vector<std::string>{"--data b,a", "--steps 7"}));
}

TEST(Flags, ARunFileSetsTheFlagsOfTheTable) {
  using Arguments = std::vector<std::string>;
  EXPECT_EQ(readRunFile(R"({"steps": 3, "shuffle": true, "eval": false})", {}),
            (Arguments{"--steps", "3", "--shuffle"}));
  EXPECT_EQ(readRunFile(R"({"steps": 3})", {"--steps", "4"}), Arguments());
  EXPECT_EQ(readRunFile(R"({"steps": 3})", {"--epochs", "4"}), Arguments()); // excludes --steps
  for (const char *text : {R"({"config": "x"})", R"({"help": true})", R"({"stepz": 3})"})
    EXPECT_THROW(readRunFile(text, {}), CLI::ParseError) << text;
}

int main(int argc, char **argv) {
  if (argc == 2 && std::string(argv[1]) == "--write") {
    std::ofstream(PSRT_FLAG_PAGE) << makePage();
    return 0;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
