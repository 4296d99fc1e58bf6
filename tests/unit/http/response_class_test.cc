#include "worker/http/response_class.h"

#include <gtest/gtest.h>

#include <string>

namespace posthorn::http {
namespace {

using delivery::Verdict;
using namespace std::chrono_literals;

// Sunday, 6 November 1994, 08:49:37 GMT
constexpr ratelimit::WallTime kNow1994{std::chrono::seconds(784'111'777)};
constexpr ratelimit::WallTime kNow2026{std::chrono::seconds(1'793'000'000)};

TEST(ClassifyTest, FollowsTheTable) {
  for (const int status : {200, 201, 202, 204, 226, 299}) EXPECT_EQ(Classify(status, false), Verdict::kDelivered);
  for (const int status : {429, 502, 503, 504}) EXPECT_EQ(Classify(status, false), Verdict::kOverload);
  for (const int status : {300, 301, 302, 304, 307, 308, 399, 408, 425, 500, 501, 505, 511, 599}) {
    EXPECT_EQ(Classify(status, false), Verdict::kRetry) << status;
  }
  for (const int status : {400, 401, 403, 404, 405, 409, 410, 413, 414, 415, 422, 431, 451, 499}) {
    EXPECT_EQ(Classify(status, false), Verdict::kRejected) << status;
  }
}

TEST(ClassifyTest, RetryingClientErrorsLeavesOnlyGoneRejected) {
  for (int status = 100; status < 1000; ++status) {
    const Verdict verdict = Classify(status, true);
    EXPECT_EQ(verdict == Verdict::kRejected, status == 410) << status;
    if (Classify(status, false) != Verdict::kRejected) {
      EXPECT_EQ(verdict, Classify(status, false)) << status;
    }
  }
}

TEST(ClassifyTest, WhatIsNoFinalStatusIsRetried) {
  for (const int status : {0, -1, 1, 99, 100, 101, 199, 600, 700, 999}) {
    EXPECT_EQ(Classify(status, false), Verdict::kRetry) << status;
    EXPECT_EQ(Classify(status, true), Verdict::kRetry) << status;
  }
}

TEST(ParseRetryAfterTest, Seconds) {
  EXPECT_EQ(ParseRetryAfter("0", kNow2026), 0s);
  EXPECT_EQ(ParseRetryAfter("1", kNow2026), 1s);
  EXPECT_EQ(ParseRetryAfter(" \t120 ", kNow2026), 120s);
  EXPECT_EQ(ParseRetryAfter("007", kNow2026), 7s);
}

TEST(ParseRetryAfterTest, HugeValuesSaturate) {
  EXPECT_EQ(ParseRetryAfter("31535999", kNow2026), 31'535'999s);
  EXPECT_EQ(ParseRetryAfter("31536000", kNow2026), kMaxRetryAfter);
  EXPECT_EQ(ParseRetryAfter("1000000000000000000", kNow2026), kMaxRetryAfter);
  EXPECT_EQ(ParseRetryAfter(std::string(200, '9'), kNow2026), kMaxRetryAfter);
  EXPECT_EQ(ParseRetryAfter("Fri, 31 Dec 9999 23:59:59 GMT", kNow2026), kMaxRetryAfter);
}

TEST(ParseRetryAfterTest, GarbageIsNothing) {
  for (const char* text : {"",
                           " ",
                           "-1",
                           "+1",
                           "1.5",
                           "1s",
                           "1 2",
                           "soon",
                           "0x10",
                           "1e3",
                           "Sun, 06 Nov 1994 08:49:37",
                           "Sun, 06 Nov 1994 08:49:37 GMT x",
                           "Sun, 6 Nov 1994 08:49:37 GMT",
                           "Sun, 31 Feb 2026 08:49:37 GMT",
                           "Sun, 06 Nov 1994 24:00:00 GMT",
                           "Sun, 06 Nov 1994 08:60:37 GMT",
                           "Sun, 06 Nov 1994 08:49:61 GMT",
                           "sun, 06 Nov 1994 08:49:37 GMT",
                           "Sun, 06 Nov 1994 08:49:37 CET",
                           "Sun, 00 Nov 1994 08:49:37 GMT",
                           "2026-11-21T10:00:00Z",
                           "Sun Nov 6 08:49:37 1994",
                           "Sun, 06 Nov -994 08:49:37 GMT"}) {
    EXPECT_EQ(ParseRetryAfter(text, kNow1994), std::nullopt) << text;
  }
}

TEST(ParseRetryAfterTest, AllThreeDateForms) {
  const auto before = kNow1994 - 90s;
  for (const char* text :
       {"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"}) {
    EXPECT_EQ(ParseRetryAfter(text, before), 90s) << text;
    EXPECT_EQ(ParseRetryAfter(text, kNow1994), 0s) << text;
    EXPECT_EQ(ParseRetryAfter(text, kNow1994 + 5s), 0s) << text;
    EXPECT_EQ(ParseRetryAfter(text, before + 1ms), 89'999ms) << text;
    EXPECT_EQ(ParseRetryAfter(text, before + 1ns), 90s) << text << ": never before the date";
  }
  EXPECT_EQ(ParseRetryAfter("Thu, 01 Jan 1970 00:00:00 GMT", kNow2026), 0s);
  EXPECT_EQ(ParseRetryAfter("Sat, 29 Feb 2020 00:00:00 GMT", kNow2026), 0s);
}

TEST(ParseRetryAfterTest, TwoDigitYearsAreAtMostFiftyYearsAhead) {
  EXPECT_EQ(ParseRetryAfter("Sunday, 06-Nov-94 08:49:37 GMT", kNow2026), 0s) << "1994";
  EXPECT_EQ(ParseRetryAfter("Friday, 06-Nov-76 08:49:37 GMT", kNow2026), kMaxRetryAfter) << "2076";
  EXPECT_EQ(ParseRetryAfter("Sunday, 06-Nov-77 08:49:37 GMT", kNow2026), 0s) << "1977";
}

}  // namespace
}  // namespace posthorn::http
