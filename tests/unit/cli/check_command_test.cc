#include "worker/cli/check_command.h"

#include <gmock/gmock.h>

#include <CLI/CLI.hpp>
#include <sstream>

#include "config/effective.h"
#include "tests/unit/config/config_fixture.h"
#include "tests/unit/config/temp_directory.h"

namespace posthorn::cli {
namespace {

using config::kDeploymentText;
using config::OneSubscription;
using config::TempDirectory;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct CheckResult {
  int code = -1;
  std::string out;
  std::string err;
};

CheckResult Checked(const CheckArguments& arguments, const CheckServices& services = {}) {
  std::ostringstream out;
  std::ostringstream err;
  const int code = RunCheck(arguments, {}, services, out, err);
  return {code, out.str(), err.str()};
}

TEST(CheckCommandTest, PrintsTheEffectiveConfigurationOfAFile) {
  const TempDirectory dir;
  dir.Write("s.yaml", OneSubscription("    max_rate: 5/s\n    headers: { authorization: hunter2 }\n"));
  const CheckResult result = Checked({.files = {(dir / "s.yaml").string()}});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("max_rate: 5/s"), HasSubstr("timeout: 5s"), Not(HasSubstr("hunter2"))));
  EXPECT_THAT(result.err, IsEmpty());
}

TEST(CheckCommandTest, AllFaultsOnStderrAndCodeOne) {
  const TempDirectory dir;
  dir.Write("s.yaml", OneSubscription("    max_rate: 5\n    colour: red\n"));
  const CheckResult result = Checked({.files = {(dir / "s.yaml").string()}});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.err, AllOf(HasSubstr("s.yaml:5:15: subscriptions[0].max_rate"), HasSubstr("colour: unknown key"),
                                HasSubstr("2 faults")));
}

TEST(CheckCommandTest, SeveralFilesAndDirectoriesAreOneRevision) {
  const TempDirectory dir;
  std::filesystem::create_directory(dir / "d");
  dir.Write("d/a.yaml", OneSubscription(""));
  dir.Write("b.yaml", OneSubscription(""));
  const CheckResult result = Checked({.files = {(dir / "d").string(), (dir / "b.yaml").string()}});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("a subscription of this name stands in"));
}

TEST(CheckCommandTest, DeploymentFileIsRecognised) {
  const TempDirectory dir;
  dir.Write("posthorn.yaml", kDeploymentText);
  const CheckResult result = Checked({.files = {(dir / "posthorn.yaml").string()}, .overrides = {"shards=3"}});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("fleet: orders"), HasSubstr("shards: 3")));
}

TEST(CheckCommandTest, ConfigChecksTheDeploymentWithItsSubscriptions) {
  const TempDirectory dir;
  dir.Write("posthorn.yaml", kDeploymentText);
  dir.Write("s.yaml", OneSubscription("", "instances: 3\n"));
  const std::string file = (dir / "posthorn.yaml").string();
  const CheckResult good = Checked({.config = file});
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_THAT(good.out, AllOf(HasSubstr("fleet: orders"), HasSubstr("---\n"), HasSubstr("instances: 3")));
  EXPECT_THAT(good.err, HasSubstr("no slot"));
  EXPECT_THAT(Checked({.config = file, .overrides = {"instance=o-2"}}).err, IsEmpty());
  EXPECT_THAT(Checked({.config = file, .overrides = {"instance=o-3"}}).err, HasSubstr("outside 0 to 2"));

  dir.Write("s.yaml", OneSubscription("    ttl: 1\n"));
  const CheckResult bad = Checked({.config = file, .overrides = {"shards=0"}});
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.err, HasSubstr("shards"));
  const CheckResult both = Checked({.config = file});
  EXPECT_EQ(both.code, 1);
  EXPECT_THAT(both.err, HasSubstr("s.yaml:5:10: subscriptions[0].ttl"));
}

TEST(CheckCommandTest, MissingFilesAreFaults) {
  EXPECT_EQ(Checked({.files = {"/nowhere/s.yaml"}}).code, 1);
  EXPECT_THAT(Checked({.files = {"/nowhere/s.yaml"}}).err, HasSubstr("/nowhere/s.yaml: cannot be read: No such file"));
  EXPECT_EQ(Checked({.config = "/nowhere/posthorn.yaml"}).code, 1);
}

TEST(CheckCommandTest, WrongUsage) {
  const TempDirectory dir;
  dir.Write("s.yaml", OneSubscription(""));
  EXPECT_EQ(Checked({}).code, 2);
  EXPECT_EQ(Checked({.files = {"a"}, .config = "b"}).code, 2);
  EXPECT_EQ(Checked({.files = {"a"}, .from = true, .source = {"url", "url=http://x/"}}).code, 2);
  EXPECT_EQ(Checked({.from = true}).code, 2);
  EXPECT_EQ(Checked({.files = {(dir / "s.yaml").string()}, .overrides = {"a=b"}}).code, 2);
}

TEST(CheckCommandTest, CommandLineAndHelp) {
  const TempDirectory dir;
  dir.Write("posthorn.yaml", kDeploymentText);
  CLI::App app;
  int exit_code = -1;
  AddCheckCommand(app, exit_code, {}, {});
  EXPECT_THAT(app.get_subcommand("check")->help(),
              AllOf(HasSubstr("subscriptions[].backoff.initial"), HasSubstr("--set")));
  ::testing::internal::CaptureStdout();
  app.parse("check --set shards=4 --set log.level=debug " + (dir / "posthorn.yaml").string(), false);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), AllOf(HasSubstr("shards: 4"), HasSubstr("level: debug")));
  EXPECT_EQ(exit_code, 0);
}

// Answers once, with one document or not at all.
class OneAnswer final : public config::Source {
 public:
  explicit OneAnswer(std::string text) : text_(std::move(text)) {}
  config::Outcome Next(const std::string&, std::chrono::milliseconds, std::stop_token) override {
    if (text_.empty()) return config::Failed{"away"};
    return config::Changed{{"1", "7", {{"s.yaml", text_}}}};
  }
  std::string Describe() const override { return "a source"; }

 private:
  const std::string text_;
};

// A source that holds `held`, and a worker that runs `run`; empty: away.
struct Fleet {
  std::string held;
  std::string run;
  std::string asked_source = {};
  std::string asked_worker = {};

  CheckServices Services() {
    return {[this](const config::Deployment& deployment, std::string*) -> std::unique_ptr<config::Source> {
              asked_source = config::ToString(deployment.source);
              return std::make_unique<OneAnswer>(held);
            },
            [this](const std::string& address, const std::string&) -> std::optional<std::string> {
              asked_worker = address;
              const auto loaded = config::LoadOne(run);
              if (run.empty() || !loaded) return std::nullopt;
              std::string yaml;
              for (const char c : config::EffectiveYaml(*loaded.value)) {
                if (c == '\n') yaml += "\\n";
                if (c == '"') yaml += "\\\"";
                if (c != '\n' && c != '"') yaml += c;
              }
              return R"({"running":{"digest":"x","yaml":")" + yaml + R"("},"last_refused":null})";
            }};
  }
};

constexpr const char* kOverKafka =
    "fleet: orders\nkafka: { bootstrap.servers: h:1 }\nadmin: 0.0.0.0:8080\nsubscriptions: { kafka_topic: { name: t } "
    "}\n";

TEST(CheckCommandTest, FromReadsTheSourceOfTheDeploymentOnce) {
  const TempDirectory dir;
  dir.Write("posthorn.yaml", kOverKafka);
  Fleet fleet{OneSubscription("    max_rate: 5/s\n"), ""};
  const std::string file = (dir / "posthorn.yaml").string();
  const CheckResult good = Checked({.config = file, .from = true}, fleet.Services());
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_THAT(good.out, AllOf(HasSubstr("fleet: orders"), HasSubstr("max_rate: 5/s")));
  EXPECT_EQ(fleet.asked_source, "kafka_topic t");
  const CheckResult unasked = Checked({.config = file}, fleet.Services());
  EXPECT_EQ(unasked.code, 0);
  EXPECT_THAT(unasked.err, HasSubstr("--from"));
  fleet.held = OneSubscription("    colour: red\n");
  EXPECT_EQ(Checked({.config = file, .from = true}, fleet.Services()).code, 1);
  fleet.held = "";
  EXPECT_THAT(Checked({.config = file, .from = true}, fleet.Services()).err,
              HasSubstr("kafka_topic t: cannot be read: away"));
}

TEST(CheckCommandTest, FromTakesASourceOfTheCommandLine) {
  Fleet fleet{OneSubscription("    max_rate: 5/s\n"), ""};
  const CheckResult good =
      Checked({.from = true, .source = {"central-dogma", "url=http://d:1", "project=p", "repository=r", "path=/s/**"}},
              fleet.Services());
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_THAT(good.out, HasSubstr("max_rate: 5/s"));
  EXPECT_EQ(fleet.asked_source, "central_dogma http://d:1 p/r/s/**");
  const CheckResult bad = Checked({.from = true, .source = {"etcd", "url=http://e:1", "colour=red"}}, fleet.Services());
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.err, AllOf(HasSubstr("colour"), HasSubstr("prefix")));
  EXPECT_EQ(Checked({.from = true, .source = {"zookeeper"}}, fleet.Services()).code, 1);

  const CheckResult nowhere = Checked({.from = true, .source = {"kafka-topic", "name=t"}}, fleet.Services());
  EXPECT_EQ(nowhere.code, 1);
  EXPECT_THAT(nowhere.err, HasSubstr("kafka.bootstrap.servers"));
  const CheckResult topic =
      Checked({.from = true, .source = {"kafka-topic", "name=t", "kafka.bootstrap.servers=h:1"}}, fleet.Services());
  EXPECT_EQ(topic.code, 0) << topic.err;
  EXPECT_EQ(fleet.asked_source, "kafka_topic t");
}

TEST(CheckCommandTest, FromTheKindOfTheDeploymentAsksTheDeploymentsSource) {
  const TempDirectory dir;
  dir.Write("posthorn.yaml", kOverKafka);
  Fleet fleet{OneSubscription("    max_rate: 5/s\n"), ""};
  const std::string file = (dir / "posthorn.yaml").string();
  EXPECT_EQ(Checked({.config = file, .from = true, .source = {"kafka-topic"}}, fleet.Services()).code, 0);
  EXPECT_EQ(fleet.asked_source, "kafka_topic t");
  const CheckResult other = Checked({.config = file, .from = true, .source = {"etcd"}}, fleet.Services());
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.err, HasSubstr("prefix"));
}

TEST(CheckCommandTest, AnEffectiveAtFarAheadIsNoted) {
  const TempDirectory dir;
  dir.Write("s.yaml", OneSubscription("", "effective_at: 2150-01-01T00:00:00Z\n"));
  const CheckResult result = Checked({.files = {(dir / "s.yaml").string()}});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("10 min ahead"));
}

TEST(CheckCommandTest, DiffComparesWithTheWorkerOrElseWithTheSource) {
  const TempDirectory dir;
  dir.Write("posthorn.yaml", kOverKafka);
  dir.Write("new.yaml", OneSubscription("    max_rate: 3/s\n"));
  const std::string file = (dir / "posthorn.yaml").string();
  const std::string next = (dir / "new.yaml").string();
  Fleet fleet{OneSubscription("    max_rate: 7/s\n"), OneSubscription("    max_rate: 5/s\n")};
  const CheckResult with_worker = Checked({.files = {next}, .config = file, .diff = true}, fleet.Services());
  EXPECT_EQ(with_worker.code, 0) << with_worker.err;
  EXPECT_EQ(with_worker.out, "~ billing\n    max_rate: 5/s -> 3/s\n");
  EXPECT_EQ(fleet.asked_worker, "127.0.0.1:8080");
  EXPECT_EQ(Checked({.config = file, .from = true, .diff = true}, fleet.Services()).out,
            "~ billing\n    max_rate: 5/s -> 7/s\n");
  EXPECT_EQ(Checked({.files = {next}, .diff = true, .worker = "h:1"}, fleet.Services()).out,
            "~ billing\n    max_rate: 5/s -> 3/s\n");
  EXPECT_EQ(fleet.asked_worker, "h:1");

  fleet.run = "";
  const CheckResult with_source = Checked({.files = {next}, .config = file, .diff = true}, fleet.Services());
  EXPECT_EQ(with_source.out, "~ billing\n    max_rate: 7/s -> 3/s\n") << with_source.err;
  EXPECT_THAT(with_source.err, HasSubstr("kafka_topic t"));
  const CheckResult nobody =
      Checked({.files = {next}, .config = file, .diff = true, .worker = "h:1"}, fleet.Services());
  EXPECT_EQ(nobody.code, 1);
  EXPECT_THAT(nobody.err, HasSubstr("h:1 does not answer"));
  fleet.held = OneSubscription("    max_rate: 3/s\n");
  EXPECT_EQ(Checked({.files = {next}, .config = file, .diff = true}, fleet.Services()).out, "no difference\n");
}

}  // namespace
}  // namespace posthorn::cli
