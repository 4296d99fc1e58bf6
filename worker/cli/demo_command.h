#pragma once

namespace CLI {
class App;
}

namespace posthorn::cli {

/// Adds `demo`: the main job in one process tree on the broker that librdkafka embeds: a producer, two workers as
/// processes of their own, a sink that counts, and a max-rate that is changed half-way.
void AddDemoCommand(CLI::App& app, int& exit_code);

}  // namespace posthorn::cli
