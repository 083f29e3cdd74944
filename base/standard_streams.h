// The three streams that a program is started with.
#pragma once

namespace regatta::base {

// First call of main. If a standard stream is closed, reserves its number with a descriptor that
// cannot be read or written; otherwise the next file opened would get the number, and the output.
void hold_standard_streams();

// Last call of main. Throws Code::Operator if some output did not reach stdout (a full disk, a
// closed stream). A reader that closed its pipe early (`| head`) is no error.
void finish_output();

}  // namespace regatta::base
