// Cancelling, sending from inside the calls, idle connections and the sender's own end.
#include <memory>

#include "tests/unit/http/sender_fixture.h"

namespace posthorn::http {
namespace {

using delivery::Verdict;
using test::Answer;
using test::ScriptedEndpoint;
using namespace std::chrono_literals;

class CurlSenderLifetimeTest : public SenderTest {
 protected:
  void Cancel(Attempt& attempt) {
    CurlSender& s = sender();
    OnLoop([&] { s.Cancel(attempt); });
  }
};

TEST_F(CurlSenderLifetimeTest, CancelledBeforeItWasWritten) {
  const Endpoint endpoint({{Endpoint::Serve(Answer(200))}});
  const auto target = Prepare(Subscription(endpoint.url()));
  Attempt attempt;
  CurlSender& s = sender();
  OnLoop([&] {
    s.Send(target, MakeMessage(MakeRecord("hello")), attempt);
    EXPECT_EQ(attempt.finishes(), 0) << "never from inside Send";
    s.Cancel(attempt);
    EXPECT_EQ(attempt.finishes(), 1) << "finished when Cancel returns";
    s.Cancel(attempt);
  });
  EXPECT_EQ(attempt.Await().verdict, Verdict::kNotSent);
  EXPECT_EQ(Deliver(target).verdict, Verdict::kDelivered);
  EXPECT_EQ(attempt.finishes(), 1);
  EXPECT_EQ(endpoint.requests().size(), 1u);
}

TEST_F(CurlSenderLifetimeTest, CancelledAfterItWasWritten) {
  const Endpoint endpoint({{kRead(), Endpoint::Hold()}});
  const auto target = Prepare(Subscription(endpoint.url()));
  Attempt attempt;
  Start(target, attempt);
  ASSERT_TRUE(endpoint.AwaitRequests(1));
  Cancel(attempt);
  EXPECT_EQ(attempt.Await().verdict, Verdict::kRetry);
  EXPECT_EQ(attempt.outcome().error, "cancelled");
  EXPECT_TRUE(endpoint.AwaitEnded(1)) << "the connection is not used again";
}

TEST_F(CurlSenderLifetimeTest, CancelKnowsOnlyWhatWasSent) {
  Attempt never_sent;
  Cancel(never_sent);
  EXPECT_EQ(never_sent.finishes(), 0);
}

TEST_F(CurlSenderLifetimeTest, HandlersMaySendAndCancelFromInsideTheirCalls) {
  const Endpoint endpoint({{Endpoint::Serve(Answer(200))}});
  const auto target = Prepare(Subscription(endpoint.url()));
  CurlSender& s = sender();
  const auto send = [&](Attempt& attempt) { s.Send(target, MakeMessage(MakeRecord("hello")), attempt); };

  Attempt from_before;
  Attempt from_finished;
  Attempt cancels_itself;
  Attempt cancelled_by_neighbour;
  Attempt first;
  first.on_before = [&] {
    send(from_before);
    EXPECT_EQ(from_before.finishes(), 0);
  };
  first.on_finished = [&] { send(from_finished); };
  cancels_itself.on_before = [&] {
    send(cancelled_by_neighbour);
    s.Cancel(cancelled_by_neighbour);
    EXPECT_EQ(cancelled_by_neighbour.finishes(), 1);
    s.Cancel(cancels_itself);
    EXPECT_EQ(cancels_itself.finishes(), 1);
  };
  OnLoop([&] {
    send(first);
    send(cancels_itself);
  });
  EXPECT_EQ(first.Await().verdict, Verdict::kDelivered);
  EXPECT_EQ(from_before.Await().verdict, Verdict::kDelivered);
  EXPECT_EQ(from_finished.Await().verdict, Verdict::kDelivered);
  EXPECT_EQ(cancels_itself.Await().verdict, Verdict::kNotSent);
  EXPECT_EQ(cancelled_by_neighbour.Await().verdict, Verdict::kNotSent);
  EXPECT_EQ(endpoint.requests().size(), 3u);
  // What libcurl still held of the cancelled one is let go by then.
  EXPECT_EQ(Deliver(target).verdict, Verdict::kDelivered);
  OnLoop([&] { EXPECT_EQ(s.in_flight(), 0u); });
}

TEST_F(CurlSenderLifetimeTest, ARunningNeighbourCanBeCancelledFromInsideACall) {
  const Endpoint silent({{kRead(), Endpoint::Hold()}});
  const Endpoint serving({{Endpoint::Serve(Answer(200))}});
  const auto silent_target = Prepare(Subscription(silent.url()));
  const auto target = Prepare(Subscription(serving.url()));
  CurlSender& s = sender();
  Attempt waiting;
  Start(silent_target, waiting);
  ASSERT_TRUE(silent.AwaitRequests(1));
  Attempt other;
  other.on_before = [&] {
    s.Cancel(waiting);
    EXPECT_EQ(waiting.finishes(), 1);
  };
  Start(target, other);
  EXPECT_EQ(other.Await().verdict, Verdict::kDelivered);
  EXPECT_EQ(waiting.Await().verdict, Verdict::kRetry);
  EXPECT_TRUE(silent.AwaitEnded(1));
  OnLoop([&] { EXPECT_EQ(s.in_flight(), 0u); });
}

TEST_F(CurlSenderLifetimeTest, TheSendersEndFinishesEverything) {
  const Endpoint silent({{kRead(), Endpoint::Hold()}});
  const auto target = Prepare(Subscription(silent.url()));
  std::vector<std::unique_ptr<Attempt>> attempts;
  Attempt sent_meanwhile;
  CurlSender& s = sender();
  OnLoop([&] {
    for (int i = 0; i < 80; ++i) {
      attempts.push_back(std::make_unique<Attempt>());
      s.Send(target, MakeMessage(MakeRecord("hello")), *attempts.back());
    }
  });
  ASSERT_TRUE(silent.AwaitRequests(80));
  Attempt unwritten;
  OnLoop([&] {
    attempts[3]->on_finished = [&] { s.Send(target, MakeMessage(MakeRecord("hello")), sent_meanwhile); };
    s.Send(target, MakeMessage(MakeRecord("hello")), unwritten);
    sender_.reset();
    for (const auto& attempt : attempts) {
      EXPECT_EQ(attempt->finishes(), 1);
      EXPECT_EQ(attempt->outcome().verdict, Verdict::kRetry);
      EXPECT_EQ(attempt->outcome().error, "cancelled");
    }
    EXPECT_EQ(unwritten.outcome().verdict, Verdict::kNotSent);
    EXPECT_EQ(sent_meanwhile.outcome().verdict, Verdict::kNotSent);
  });
  EXPECT_TRUE(silent.AwaitEnded(80));
}

TEST_F(CurlSenderLifetimeTest, TargetsGoWhileTheirRequestsRun) {
  const Endpoint endpoint({{Endpoint::Serve(Answer(200))}});
  auto target = Prepare(Subscription(endpoint.url()));
  std::vector<std::unique_ptr<Attempt>> attempts;
  CurlSender& s = sender();
  OnLoop([&] {
    for (int i = 0; i < 20; ++i) {
      attempts.push_back(std::make_unique<Attempt>());
      s.Send(target, MakeMessage(MakeRecord("hello")), *attempts.back());
    }
    target.reset();
  });
  for (const auto& attempt : attempts) EXPECT_EQ(attempt->Await().verdict, Verdict::kDelivered);
  EXPECT_EQ(Deliver(Prepare(Subscription(endpoint.url()))).verdict, Verdict::kDelivered);
}

TEST_F(CurlSenderLifetimeTest, IdleConnectionsAreClosed) {
  options_.idle_connection = 1s;
  const Endpoint endpoint({{Endpoint::Serve(Answer(200))}});
  const auto target = Prepare(Subscription(endpoint.url()));
  std::vector<std::unique_ptr<Attempt>> attempts;
  CurlSender& s = sender();
  OnLoop([&] {
    for (int i = 0; i < 20; ++i) {
      attempts.push_back(std::make_unique<Attempt>());
      s.Send(target, MakeMessage(MakeRecord("hello")), *attempts.back());
    }
  });
  for (const auto& attempt : attempts) attempt->Await();
  const int opened = endpoint.accepted();
  OnLoop([&] { EXPECT_EQ(s.connections(), static_cast<std::size_t>(opened)); });
  EXPECT_TRUE(endpoint.AwaitEnded(opened));
  OnLoop([&] { EXPECT_EQ(s.connections(), 0u); });
  EXPECT_EQ(Deliver(target).verdict, Verdict::kDelivered) << "and opened again when needed";
}

}  // namespace
}  // namespace posthorn::http
