#pragma once

namespace posthorn::kafka {

/// Whether a client of this process was abandoned instead of destroyed, because librdkafka would hang or crash. Its
/// threads run on until the process ends, which must then end by std::_Exit: they use what the ordinary way destroys
/// (OpenSSL's tables, for one). Threads: any.
[[nodiscard]] bool ClientsAbandoned();

}  // namespace posthorn::kafka
