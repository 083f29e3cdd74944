// The controller's own directory, DATA: where it is by default, and what in it lets a client in.
#pragma once

#include <optional>
#include <string>

#include "base/file_system.h"
#include "orchestrator/site/environment.h"

namespace regatta::orchestrator::site {

// $XDG_STATE_HOME/regatta, else $HOME/.local/state/regatta; nothing when neither is set.
[[nodiscard]] std::optional<base::Path> default_data_directory(
    const ProgramEnvironment& environment);

// DATA/controller.sock and DATA/token.
[[nodiscard]] base::Path socket_path(const base::Path& data);
[[nodiscard]] base::Path token_path(const base::Path& data);

// 256 bits as 64 hexadecimal digits. Code::NotFound when there is no such file; Code::Operator when
// it may not be what its owner wrote (a link, of another user, open to others, not a token).
[[nodiscard]] std::string read_token(const base::Path& path);

// The token of this directory, made when there is none. Call it with the directory's lock held.
// Code::Operator also when others may write into the directory.
[[nodiscard]] std::string keep_token(base::FileSystem& files, const base::Path& data);

}  // namespace regatta::orchestrator::site
