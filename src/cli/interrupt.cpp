#include "cli/interrupt.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
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

sigset_t watched() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

void* wait_for_signals(void*) {
  const sigset_t signals = watched();
  for (int signal = 0;;)
    if (sigwait(&signals, &signal) == 0) on_signal(signal);
}

/// A thread that only waits; false where there is none to be had.
bool start_watching_thread() {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  // So little that a limit on the address space does not notice it.
  pthread_attr_setstacksize(&attributes, std::max<std::size_t>(PTHREAD_STACK_MIN, 64 << 10));
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread{};
  const bool started = pthread_create(&thread, &attributes, wait_for_signals, nullptr) == 0;
  pthread_attr_destroy(&attributes);
  return started;
}

}  // namespace

void watch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // Every thread that comes from this one has them blocked, so that no handler runs on one that computes:
  // where oneDNN multiplies f32 without AVX-512, the stack pointer of that one lies in a buffer of the heap,
  // and what the system puts there for a handler destroys what lies before that buffer.
  const sigset_t signals = watched();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  if (!start_watching_thread()) pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
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
