#pragma once

#include <string>

namespace dif::test {

/// Notes one row of docs/reliability.md: what a user sees in a case. `prints` is the sentence; numbers that
/// differ between machines are replaced here. Rows are written to the file DIF_RELIABILITY_TABLE when all
/// tests have run, and compared with the file DIF_RELIABILITY_DOCUMENT.
void note_case(const std::string& section, const std::string& name, int exit_status,
               const std::string& prints);

}  // namespace dif::test
