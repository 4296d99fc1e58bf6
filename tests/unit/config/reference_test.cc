#include "config/reference.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "config/load.h"
#include "config/option_table.h"
#include "config/schema.h"
#include "tests/unit/config/json_schema.h"

namespace posthorn::config {
namespace {

using ::testing::HasSubstr;

TEST(ReferenceTest, PageInTheTreeIsUpToDate) {
  std::ifstream file(POSTHORN_SOURCE_DIR "/docs/configuration.md", std::ios::binary);
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_TRUE(page.str() == ReferencePage())
      << "docs/configuration.md is stale: write the output of posthorn_config_reference to it (scripts/regen-docs)";
}

TEST(ReferenceTest, PageAndHelpNameEveryOption) {
  const std::string page = ReferencePage();
  const std::string help = OptionsHelp();
  for (const Document document : {Document::kDeployment, Document::kSubscriptions}) {
    for (const Option& option : Options(document)) {
      EXPECT_THAT(page, HasSubstr("`" + std::string(option.path) + "`"));
      EXPECT_THAT(help, HasSubstr("  " + std::string(option.path) + "  ("));
    }
  }
}

TEST(ReferenceTest, HelpFitsATerminal) {
  std::istringstream lines(OptionsHelp());
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

// The YAML examples of a page. An excerpt of a deployment leaves out what every one has.
std::vector<std::string> ExamplesIn(const std::filesystem::path& page) {
  std::vector<std::string> examples;
  std::ifstream file(page);
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("```")) {
      inside = !inside && line == "```yaml";
      if (inside) examples.emplace_back();
    } else if (inside) {
      examples.back() += line + "\n";
    }
  }
  return examples;
}

TEST(ReferenceTest, ExamplesOfTheDocsAreTakenBySchemaAndLoader) {
  const Environment anything{[](const std::string&) { return std::optional<std::string>("orders-0"); },
                             [](const std::string&, std::string*) { return std::optional<std::string>("hunter2"); }};
  std::vector<std::filesystem::path> pages{POSTHORN_SOURCE_DIR "/README.md"};
  for (const auto& entry : std::filesystem::directory_iterator(POSTHORN_SOURCE_DIR "/docs")) {
    // Scenarios of the simulation are another kind of file.
    if (entry.path().extension() == ".md" && entry.path().filename() != "simulate.md") pages.push_back(entry.path());
  }
  const JsonSchemaCheck deployment(JsonSchema(Document::kDeployment));
  const JsonSchemaCheck subscriptions(JsonSchema(Document::kSubscriptions));
  int seen = 0;
  for (const auto& page : pages) {
    for (std::string example : ExamplesIn(page)) {
      ++seen;
      const bool is_deployment = LooksLikeDeployment(example);
      if (is_deployment && example.starts_with("subscriptions:")) {
        example += "fleet: orders\nkafka: { bootstrap.servers: h:1 }\n";
      }
      const auto faults = is_deployment ? LoadDeploymentText("example", example, {}, anything).faults
                                        : LoadSubscriptions({{"example", example}}, {}, anything).faults;
      EXPECT_EQ(ToString(faults), "") << page << ":\n" << example;
      EXPECT_EQ((is_deployment ? deployment : subscriptions).Refusal(example), "") << page << ":\n" << example;
    }
  }
  EXPECT_GE(seen, 4);
}

}  // namespace
}  // namespace posthorn::config
