#include "config/sources/last_good.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "tests/unit/config/temp_directory.h"

namespace posthorn::config {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const KeptRevision kRevision{"etcd http://e /p/",
                             "17",
                             ratelimit::StartOf(1'795'248'930) + std::chrono::milliseconds(42),
                             {{"a.yaml", "x: 1\n"}, {"b.json", std::string("{\"a\": \"\0\xff\"}", 11)}, {"empty", ""}}};

std::string Bytes(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(LastGoodTest, WhatIsKeptIsRead) {
  const TempDirectory dir;
  const LastGood disk(dir / "made/for/it", "orders");
  EXPECT_FALSE(disk.Read().in_force);
  EXPECT_THAT(disk.Read().warning, IsEmpty());
  EXPECT_EQ(disk.Keep(&kRevision, nullptr), "");
  EXPECT_EQ(disk.Read().in_force, kRevision);
  KeptRevision later = kRevision;
  later.number = "18";
  EXPECT_EQ(disk.Keep(nullptr, &later), "");
  EXPECT_EQ(disk.Read().in_force, kRevision);
  EXPECT_EQ(disk.Read().scheduled, later);
  EXPECT_EQ(disk.Keep(&later, nullptr), "");
  EXPECT_EQ(disk.Read().in_force, later);
  EXPECT_FALSE(disk.Read().scheduled);
  EXPECT_THAT(LastGood(dir / "made/for/it", "another").Read().in_force, ::testing::Eq(std::nullopt));
}

TEST(LastGoodTest, NobodyElseReadsIt) {
  const TempDirectory dir;
  const LastGood disk(dir.path(), "orders");
  ASSERT_EQ(disk.Keep(&kRevision, &kRevision), "");
  int files = 0;
  for (const auto& entry : fs::directory_iterator(dir.path())) {
    ++files;
    EXPECT_EQ(entry.status().permissions(), fs::perms::owner_read | fs::perms::owner_write) << entry.path();
  }
  EXPECT_EQ(files, 2) << "nothing is left beside";
}

// Workers in containers share a directory, and all have the same pid.
TEST(LastGoodTest, WritersAtTheSameTimeNeverTearIt) {
  const TempDirectory dir;
  const auto revision = [](const std::string& number, std::size_t size) {
    return KeptRevision{"script", number, {}, {{"a.yaml", std::string(size, number[0])}}};
  };
  const KeptRevision small = revision("1", 10);
  const KeptRevision large = revision("2", 200'000);
  ASSERT_EQ(LastGood(dir.path(), "orders").Keep(&small, nullptr), "");
  std::vector<std::thread> writers;
  for (const auto* kept : {&small, &large}) {
    writers.emplace_back([&dir, kept] {
      const LastGood disk(dir.path(), "orders");
      for (int i = 0; i < 20; ++i) EXPECT_EQ(disk.Keep(kept, nullptr), "");
    });
  }
  const LastGood disk(dir.path(), "orders");
  for (int i = 0; i < 100; ++i) {
    const auto reading = disk.Read();
    EXPECT_TRUE(reading.in_force == small || reading.in_force == large) << reading.warning;
  }
  for (auto& writer : writers) writer.join();
}

TEST(LastGoodTest, EveryBrokenByteMakesItNone) {
  const TempDirectory dir;
  const LastGood disk(dir.path(), "orders");
  ASSERT_EQ(disk.Keep(&kRevision, nullptr), "");
  const fs::path file = dir / "orders.last-good";
  const std::string whole = Bytes(file);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string broken = whole;
    broken[i] = static_cast<char>(broken[i] ^ 0x20);
    dir.Write("orders.last-good", broken);
    EXPECT_FALSE(disk.Read().in_force) << i;
    EXPECT_THAT(disk.Read().warning, HasSubstr("spoilt"));
    dir.Write("orders.last-good", whole.substr(0, i));
    EXPECT_FALSE(disk.Read().in_force) << i;
  }
  dir.Write("orders.last-good", whole);
  EXPECT_EQ(disk.Read().in_force, kRevision);
}

TEST(LastGoodTest, APipeOrADirectoryInItsPlaceHoldsNothingUp) {
  const TempDirectory dir;
  const LastGood disk(dir.path(), "orders");
  ASSERT_EQ(mkfifo((dir / "orders.last-good").c_str(), 0600), 0);
  fs::create_directory(dir / "orders.scheduled");
  const auto reading = disk.Read();
  EXPECT_FALSE(reading.in_force);
  EXPECT_FALSE(reading.scheduled);
  EXPECT_THAT(reading.warning, HasSubstr("orders.scheduled"));
  EXPECT_THAT(disk.Keep(&kRevision, &kRevision), HasSubstr("orders.scheduled"));
}

TEST(LastGoodTest, ADirectoryThatCannotBeMadeIsAReason) {
  const TempDirectory dir;
  dir.Write("file", "");
  EXPECT_THAT(LastGood(dir / "file", "orders").Keep(&kRevision, nullptr), HasSubstr("file"));
  EXPECT_THAT(LastGood(dir / "file/below", "orders").Keep(&kRevision, nullptr), HasSubstr("file"));
}

}  // namespace
}  // namespace posthorn::config
