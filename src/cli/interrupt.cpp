#include "cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "io/atomic_file.h"

namespace dif::cli {

namespace {

std::atomic<int> g_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free, "the handler may use only lock-free state");

void on_signal(int signal) {
  if (g_signal.exchange(signal) == 0) return;
  io::remove_pending_temporaries();
  _exit(128 + signal);
}

}  // namespace

void watch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A reader that went away is an error of the write, not the end of the process.
  signal(SIGPIPE, SIG_IGN);
}

bool stop_requested() {
  return g_signal.load(std::memory_order_relaxed) != 0;
}

int received_signal() {
  return g_signal.load(std::memory_order_relaxed);
}

}  // namespace dif::cli
