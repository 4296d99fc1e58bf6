#include "worker/cli/minimal_sink.h"

#include <gtest/gtest.h>

#include "tests/unit/sink/raw_client.h"

namespace posthorn::cli {
namespace {

using test::Post;
using test::RawClient;

TEST(MinimalSinkTest, AnswersEveryRequestOnceHoweverTheBytesCome) {
  MinimalSink sink;
  std::string why;
  ASSERT_TRUE(sink.Start("127.0.0.1:0", &why)) << why;
  const std::string address = sink.address();
  RawClient client(static_cast<std::uint16_t>(std::stoul(address.substr(address.rfind(':') + 1))));
  ASSERT_TRUE(client.connected());
  EXPECT_EQ(client.Ask(Post("/", "hello", "Content-Type: x\r\n")), "HTTP/1.1 204 No Content\r\n\r\n");
  client.Send(Post("/", "one") + Post("/", std::string(100'000, 'x')) + Post("/", ""));
  for (int i = 0; i < 3; ++i) EXPECT_NE(client.Receive(), "");
  const std::string split = Post("/", "abc\r\n\r\nGET / HTTP/1.1\r\n\r\n");
  for (const char byte : split) client.Send(std::string_view(&byte, 1));
  EXPECT_NE(client.Receive(), "");
  EXPECT_EQ(sink.requests(), 5u);
  sink.Stop();
}

TEST(MinimalSinkTest, SaysWhenItCannotListen) {
  MinimalSink sink;
  std::string why;
  EXPECT_FALSE(sink.Start("nowhere", &why));
  EXPECT_NE(why, "");
}

}  // namespace
}  // namespace posthorn::cli
