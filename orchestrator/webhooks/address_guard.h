// Where a webhook may connect to: nobody may have the controller talk to what only it can reach.
#pragma once

#include <sys/socket.h>

#include <string>

namespace regatta::orchestrator::webhooks {

enum class Private { Refused, Allowed };

// Why nothing is sent to this address; empty: it may be. Link-local addresses, those of clouds'
// metadata services, multicast and what is no host never are; loopback and private networks only
// where they are allowed. An IPv4 address inside an IPv6 one counts as itself.
[[nodiscard]] std::string why_forbidden(const sockaddr* address, Private private_addresses);

}  // namespace regatta::orchestrator::webhooks
