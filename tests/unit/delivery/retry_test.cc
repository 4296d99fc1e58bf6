// What becomes of a message: delivered, tried again, given up; and what is committed for it.
#include <gmock/gmock.h>

#include <limits>

#include "tests/unit/delivery/shard_fixture.h"

namespace posthorn::delivery {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RetryTest : public ShardTest {};

TEST_F(RetryTest, DeliveredMessagesAreFinishedAndCommittedWithinASecond) {
  Simple(3);
  EXPECT_THAT(sender().pending_offsets(), ElementsAre(0, 1, 2));
  Ok();
  Ok();
  Ok();
  EXPECT_EQ(lane_stats->next, 3);
  EXPECT_EQ(stats().delivered.value(), 3u);
  EXPECT_EQ(NotedNext(), std::nullopt);
  world.Advance(milliseconds(1250));
  EXPECT_EQ(NotedNext(), 3);
  ExpectGaugesZero();
}

TEST_F(RetryTest, ThePositionNeverPassesAnUnfinishedMessage) {
  Simple(3);
  sender().Write(1);
  sender().Finish(1, test::Respond(Verdict::kDelivered, 200));
  world.Advance(milliseconds(1250));
  EXPECT_EQ(NotedNext(), 0);
  Ok();  // offset 0
  world.Advance(milliseconds(1250));
  EXPECT_EQ(NotedNext(), 2);
}

TEST_F(RetryTest, EveryThousandFinishedMessagesAreNotedAtOnce) {
  Simple(1000);
  for (int i = 0; i < 999; ++i) Ok();
  EXPECT_EQ(NotedNext(), std::nullopt);
  Ok();
  ASSERT_TRUE(offsets.noted(Key()));
  EXPECT_EQ(offsets.noted(Key())->position.next, 1000);
  EXPECT_TRUE(offsets.noted(Key())->urgent);
}

TEST_F(RetryTest, AFailedAttemptIsTriedAgainAfterItsBackoff) {
  Simple(1);
  Fail();
  EXPECT_THAT(sender().pending_offsets(), IsEmpty());
  EXPECT_EQ(stats().retrying.value(), 1u);
  world.Advance(milliseconds(999));
  EXPECT_THAT(sender().pending_offsets(), IsEmpty());
  world.Advance(milliseconds(1));
  ASSERT_THAT(sender().pending_offsets(), ElementsAre(0));
  EXPECT_EQ(sender().pending[0].request.attempt, 2u);
  Fail();
  world.Advance(milliseconds(1999));
  EXPECT_THAT(sender().pending_offsets(), IsEmpty());
  world.Advance(milliseconds(1));
  EXPECT_EQ(sender().pending[0].request.attempt, 3u);
  Ok();
  EXPECT_EQ(lane_stats->next, 1);
  EXPECT_EQ(stats().attempts_retryable.value(), 2u);
  ExpectGaugesZero();
}

TEST_F(RetryTest, RetriesThatAreDueGoBeforeNewMessages) {
  Sub("s").max_in_flight = 1;
  Simple(4);
  Fail();  // offset 0, due in one second
  EXPECT_THAT(sender().pending_offsets(), ElementsAre(1));
  world.Advance(seconds(1));
  Ok();
  EXPECT_THAT(sender().pending_offsets(), ElementsAre(0));
  Ok();
  EXPECT_THAT(sender().pending_offsets(), ElementsAre(2));
}

TEST_F(RetryTest, WhatWasTakenBackIsSentInOrder) {
  Simple(4);
  for (int i = 0; i < 3; ++i) sender().Finish(0, test::Respond(Verdict::kNotSent));
  world.RunReady();
  EXPECT_THAT(sender().pending_offsets(), ElementsAre(3, 0, 1, 2));
}

TEST_F(RetryTest, RetryAfterIsWaitedForWhenItIsLongerThanTheBackoff) {
  Simple(1);
  sender().Answer(Verdict::kOverload, 503, milliseconds(30'000));
  world.Advance(milliseconds(29'999));
  EXPECT_THAT(sender().pending_offsets(), IsEmpty());
  world.Advance(milliseconds(1));
  EXPECT_THAT(sender().pending_offsets(), ElementsAre(0));
  EXPECT_EQ(stats().attempts_overload.value(), 1u);
  sender().Answer(Verdict::kOverload, 503, milliseconds(10));  // shorter than the second backoff
  world.Advance(milliseconds(1999));
  EXPECT_THAT(sender().pending_offsets(), IsEmpty());
  world.Advance(milliseconds(1));
  EXPECT_THAT(sender().pending_offsets(), ElementsAre(0));
}

TEST_F(RetryTest, RetryAfterIsCapped) {
  Sub("s").retry_after_max = seconds(5);
  Simple(1);
  sender().Answer(Verdict::kOverload, 429, milliseconds::max());
  world.Advance(seconds(5));
  EXPECT_THAT(sender().pending_offsets(), ElementsAre(0));
}

TEST_F(RetryTest, RetryAfterPastTheTtlExpiresNow) {
  Sub("s").ttl = seconds(10);
  Simple(1);
  sender().Answer(Verdict::kOverload, 503, milliseconds(10'000));
  world.RunReady();
  ASSERT_EQ(dead_letters.written.size(), 1u);
  EXPECT_EQ(dead_letters.written[0].reason, DeadLetterReason::kExpired);
  EXPECT_EQ(dead_letters.written[0].last_status, 503);
  EXPECT_EQ(lane_stats->next, 1);
}

TEST_F(RetryTest, NoAttemptIsPlannedPastTheDeadline) {
  Sub("s").ttl = milliseconds(2500);
  Simple(1);
  const auto first = world.clock.Read().wall;
  Fail();
  world.Advance(seconds(1));
  Fail();  // the next one would be at 3 s
  ASSERT_EQ(dead_letters.written.size(), 1u);
  const auto& letter = dead_letters.written[0];
  EXPECT_EQ(letter.reason, DeadLetterReason::kExpired);
  EXPECT_EQ(letter.attempts, 2u);
  EXPECT_EQ(letter.first_attempt, first);
  EXPECT_EQ(letter.last_attempt, first + seconds(1));
  EXPECT_EQ(letter.subscription, "s");
  EXPECT_EQ(letter.partition, kPartition);
  EXPECT_EQ(stats().expired.value(), 1u);
}

TEST_F(RetryTest, MaxAttempts) {
  Sub("s").max_attempts = 2;
  Simple(1);
  Fail();
  EXPECT_THAT(dead_letters.written, IsEmpty());
  world.Advance(seconds(1));
  Fail();
  ASSERT_EQ(dead_letters.written.size(), 1u);
  EXPECT_EQ(dead_letters.written[0].reason, DeadLetterReason::kAttempts);
  EXPECT_EQ(stats().exhausted.value(), 1u);
  EXPECT_EQ(lane_stats->next, 1);
}

TEST_F(RetryTest, TheTtlIsCheckedAfterWaitingForAPermit) {
  limiters["s"] = MakeLimiter("1/s", ratelimit::Burst::kAtOnce);
  Sub("s").ttl = milliseconds(900);
  Sub("s").backoff.initial = milliseconds(600);
  world.Advance(seconds(3));
  Simple(1);
  Fail();
  world.Advance(milliseconds(600));
  EXPECT_THAT(sender().pending_offsets(), IsEmpty());  // due, but this second's permit is spent
  EXPECT_EQ(stats().waiting_for_permit.value(), 1u);
  world.Advance(milliseconds(400));
  EXPECT_THAT(sender().pending_offsets(), IsEmpty());
  ASSERT_EQ(dead_letters.written.size(), 1u);
  EXPECT_EQ(dead_letters.written[0].reason, DeadLetterReason::kExpired);
  EXPECT_EQ(dead_letters.written[0].attempts, 1u);
  EXPECT_EQ(limiters["s"]->UsedIn(ratelimit::LabelAt(world.clock.Read().wall)), 0) << "it took no permit";
}

TEST_F(RetryTest, WaitingForTheFirstPermitCostsNothingOfTheTtl) {
  limiters["s"] = MakeLimiter("1/min");
  Sub("s").ttl = seconds(5);
  world.Advance(seconds(3));
  Simple(3);
  for (int i = 0; i < 200; ++i) {
    world.Advance(seconds(1));
    OkAll();
  }
  EXPECT_THAT(sender().written_offsets(), ElementsAre(0, 1, 2));
  EXPECT_THAT(dead_letters.written, IsEmpty());
}

TEST_F(RetryTest, WaitingForASlotCostsNothingOfTheTtl) {
  Sub("s").max_in_flight = 1;
  Sub("s").ttl = seconds(5);
  Simple(2);
  world.Advance(seconds(10));
  Ok();
  EXPECT_THAT(sender().pending_offsets(), ElementsAre(1));
  EXPECT_THAT(dead_letters.written, IsEmpty());
}

TEST_F(RetryTest, TtlFromPublishedCountsFromTheTimestamp) {
  Sub("s").ttl = seconds(60);
  Sub("s").ttl_from = config::TtlFrom::kPublished;
  const auto now_ms = std::chrono::duration_cast<milliseconds>(world.clock.Read().wall.time_since_epoch()).count();
  Log()->Append("old", now_ms - 60'000);
  Log()->Append("young", now_ms - 59'999);
  Log()->Append("without a timestamp", -1);
  Log()->Append("microseconds by mistake", now_ms * 1000);
  Log()->Append("the largest", std::numeric_limits<std::int64_t>::max());
  Log()->Append("at the epoch", 0);
  Simple(0);
  EXPECT_THAT(sender().pending_offsets(), ElementsAre(1, 2, 3, 4));
  ASSERT_EQ(dead_letters.written.size(), 2u);
  EXPECT_EQ(dead_letters.written[0].record->offset(), 0);
  EXPECT_EQ(dead_letters.written[1].record->offset(), 5);
}

TEST_F(RetryTest, AStepOfTheWallClockExpiresNothingThatIsTimedFromReading) {
  Simple(1);
  Fail();
  world.clock.StepWall(std::chrono::hours(24));
  world.Advance(seconds(1));
  EXPECT_THAT(sender().pending_offsets(), ElementsAre(0));
  EXPECT_THAT(dead_letters.written, IsEmpty());
}

TEST_F(RetryTest, TheLongestTtlNeverExpires) {
  Sub("s").ttl = milliseconds::max();
  Simple(1);
  Fail();
  world.Advance(std::chrono::hours(1));
  EXPECT_THAT(sender().pending_offsets(), ElementsAre(0));
}

TEST_F(RetryTest, RejectedMessagesAreFinishedOnlyWhenTheirDeadLetterIsWritten) {
  dead_letters.mode = test::FakeDeadLetters::Mode::kHold;
  Simple(1);
  Reject();
  ASSERT_EQ(dead_letters.held.size(), 1u);
  EXPECT_EQ(lane_stats->next, 0);
  world.Advance(seconds(30));
  EXPECT_EQ(NotedNext(), std::nullopt);
  dead_letters.Answer(true);
  world.RunReady();
  EXPECT_EQ(lane_stats->next, 1);
  EXPECT_EQ(dead_letters.written[0].reason, DeadLetterReason::kRejected);
  EXPECT_EQ(stats().rejected.value(), 1u);
  ExpectGaugesZero();
}

TEST_F(RetryTest, AFailingDeadLetterSinkIsAskedAgainAndTheMessageStaysUnfinished) {
  dead_letters.mode = test::FakeDeadLetters::Mode::kFail;
  Simple(2);
  Reject();
  Ok();
  world.Advance(seconds(10));
  EXPECT_EQ(lane_stats->next, 0);
  EXPECT_GE(dead_letters.asked, 10u);
  EXPECT_EQ(stats().dead_letter_failures.value(), dead_letters.asked);
  EXPECT_THAT(sender().pending_offsets(), IsEmpty()) << "it is not sent again";
  dead_letters.mode = test::FakeDeadLetters::Mode::kWrite;
  world.Advance(seconds(1));
  EXPECT_EQ(lane_stats->next, 2);
  EXPECT_EQ(dead_letters.written.size(), 1u);
  ExpectGaugesZero();
}

TEST_F(RetryTest, WithoutDeadLettersGivenUpMessagesJustFinish) {
  Sub("s").dead_letters = false;
  Simple(1);
  Reject();
  EXPECT_EQ(dead_letters.asked, 0u);
  EXPECT_EQ(lane_stats->next, 1);
  EXPECT_EQ(stats().finished_without_record.value(), 1u);
  EXPECT_EQ(stats().rejected.value(), 1u);
}

TEST_F(RetryTest, WhatWasNotSentIsNoAttempt) {
  Sub("s").max_attempts = 2;
  Simple(1);
  const auto start = world.clock.Read().wall;
  Fail();
  world.Advance(seconds(1));
  sender().Finish(0, test::Respond(Verdict::kNotSent));  // taken back by the sender
  world.RunReady();
  ASSERT_THAT(sender().pending_offsets(), ElementsAre(0));
  EXPECT_EQ(sender().pending[0].request.attempt, 2u);
  EXPECT_EQ(stats().not_sent.value(), 1u);
  EXPECT_EQ(stats().attempts_retryable.value(), 1u);
  world.Advance(seconds(1));
  Sub("s").ttl = seconds(1);
  Apply();
  sender().Finish(0, test::Respond(Verdict::kNotSent));
  world.RunReady();
  ASSERT_EQ(dead_letters.written.size(), 1u);
  EXPECT_EQ(dead_letters.written[0].attempts, 1u);
  EXPECT_EQ(dead_letters.written[0].first_attempt, start);
  EXPECT_EQ(dead_letters.written[0].last_attempt, start) << "the later ones were no attempts";
}

TEST_F(RetryTest, TheFirstAttemptIsTheFirstThatWasSent) {
  Simple(1);
  sender().Finish(0, test::Respond(Verdict::kNotSent));
  world.Advance(seconds(5));
  const auto sent = world.clock.Read().wall;
  sender().Finish(0, test::Respond(Verdict::kNotSent));
  world.RunReady();
  Reject();
  ASSERT_EQ(dead_letters.written.size(), 1u);
  EXPECT_EQ(dead_letters.written[0].first_attempt, sent);
}

TEST_F(RetryTest, DurationsAndFailuresAreShown) {
  Simple(1);
  sender().Write(0);
  auto refused = test::Respond(Verdict::kRetry);
  refused.error = "refused";
  refused.elapsed = milliseconds(3);
  sender().Finish(0, refused);
  EXPECT_EQ(Shared("s")->last_error().text, "refused");
  EXPECT_EQ(stats().duration_buckets[2].value(), 1u);  // 2.5 to 5 ms
  EXPECT_EQ(stats().duration_sum_ns.value(), 3'000'000u);
}

}  // namespace
}  // namespace posthorn::delivery
