#pragma once

namespace dif::cli {

/// From now on Ctrl-C (SIGINT) and SIGTERM ask for a stop instead of ending the process; whoever works polls
/// `stop_requested`. A second signal ends the process at once: temporary files are removed, exit status 128 +
/// signal. Pre: this thread is the only one, so that all others are started from here on.
void watch_interrupts();
bool stop_requested();
/// The signal that asked, or 0.
int received_signal();

}  // namespace dif::cli
