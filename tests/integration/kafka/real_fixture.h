#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <random>
#include <string>

namespace posthorn::kafka {

/// What tests/system/kafka_room.sh has set.
inline std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == 0) {
    std::cerr << name << " must be set; tests/system/kafka_room.sh does it\n";
    std::exit(2);
  }
  return value;
}

/// A command of scripts/kafka about the broker of the tests.
inline void ScriptsKafka(const std::string& arguments, const std::string& command) {
  const std::string line = std::string(POSTHORN_SOURCE_DIR) + "/scripts/kafka " + command + " --id " +
                           Environment("POSTHORN_TEST_KAFKA_ID") + " " + arguments + " >/dev/null";
  ASSERT_EQ(std::system(line.c_str()), 0) << line;
}

/// For the topics and groups of the running test alone.
inline std::string OwnName() {
  static std::random_device random;
  return std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + "-" +
         std::to_string(random() % 1'000'000);
}

}  // namespace posthorn::kafka
