/* A plug-in that computes nothing and tells its host what the variable DIF_TEST_LIE names. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define DIF_BACKEND_IMPLEMENTATION
#include "dif/backend_abi.h"

struct dif_context {
  int unused;
};
struct dif_prepared {
  int unused;
};
struct dif_value {
  int unused;
};

static struct dif_context the_context;
static struct dif_prepared the_prepared;
static struct dif_value the_value;

static int lie(const char* name) {
  const char* wanted = getenv("DIF_TEST_LIE");
  return wanted != NULL && strcmp(wanted, name) == 0;
}

static dif_code probe(const char** json, dif_error* error) {
  (void)error;
  *json = "{\"backend\":\"lying\"}";
  return DIF_OK;
}

static dif_code context_create(const dif_context_options* options, dif_context** context, dif_error* error) {
  (void)options;
  (void)error;
  *context = &the_context;
  return DIF_OK;
}

static void context_destroy(dif_context* context) {
  (void)context;
}

static dif_code prepare(dif_context* context, const dif_prepare_options* options, dif_prepared** prepared,
                        dif_error* error) {
  (void)context;
  (void)options;
  if (lie("prepared-nothing")) return DIF_OK;
  if (lie("endless-sentence")) {
    memset(error->text, 'x', error->text_size);
    return DIF_ERROR_UNAVAILABLE;
  }
  if (lie("unknown-code")) return 12345;
  *prepared = &the_prepared;
  return DIF_OK;
}

static void prepared_destroy(dif_prepared* prepared) {
  (void)prepared;
}

static dif_code report(const dif_prepared* prepared, dif_report* report, dif_error* error) {
  static char nested[200001];
  (void)prepared;
  (void)error;
  if (lie("report-nothing")) return DIF_OK;
  report->n_operations = UINT32_MAX;
  report->arena_bytes = report->workspace_bytes = report->resident_bytes = UINT64_MAX;
  report->streamed_bytes = report->prepacked_bytes = report->pinned_host_bytes = UINT64_MAX;
  report->details = lie("report-no-json") ? "{\"operations\": [\xff" : NULL;
  if (lie("report-nested")) {
    memset(nested, '[', 100000);
    memset(nested + 100000, ']', 100000);
    report->details = nested;
  }
  return DIF_OK;
}

static void clear(const dif_run_options* options) {
  uint32_t i;
  for (i = 0; i < options->n_outputs; ++i) {
    const dif_tensor* output = (const dif_tensor*)(const void*)((const char*)options->outputs +
                                                                (size_t)i * options->outputs->struct_size);
    if (output->data != NULL) memset(output->data, 0, output->bytes);
  }
}

static dif_code run(dif_prepared* prepared, const dif_run_options* options, dif_error* error) {
  (void)prepared;
  (void)error;
  clear(options);
  if (lie("crash")) raise(SIGSEGV);
  if (lie("absurd-operation")) {
    error->operation = UINT32_MAX - 1;
    return DIF_ERROR_INTERNAL;
  }
  return DIF_OK;
}

static dif_code run_loop(dif_prepared* prepared, const dif_loop_options* options, dif_error* error) {
  static const float state[64];
  dif_step_event event;
  (void)prepared;
  (void)error;
  clear(&options->run);
  memset(&event, 0, sizeof(event));
  event.struct_size = sizeof(event);
  event.all_finite = 1;
  event.step = options->first_step;
  event.carried = state;
  event.carried_bytes = options->run.outputs->bytes;
  if (lie("state-too-large")) event.carried_bytes = UINT64_MAX;
  if (lie("state-missing")) event.carried = NULL;
  if (lie("step-too-large")) event.step = UINT32_MAX;
  if (lie("event-incomplete")) event.struct_size = 4;
  if (lie("never-finite")) event.all_finite = 0;
  if (options->on_step != NULL && options->on_step(options->user, &event) != 0) return DIF_ERROR_CANCELLED;
  return DIF_OK;
}

static dif_code value_create(dif_context* context, const dif_tensor_type* type, dif_value** value,
                             dif_error* error) {
  (void)context;
  (void)type;
  (void)error;
  *value = lie("value-nothing") ? NULL : &the_value;
  return DIF_OK;
}

static void value_destroy(dif_value* value) {
  (void)value;
}

static dif_code value_write(dif_value* value, const void* data, uint64_t bytes, dif_error* error) {
  (void)value;
  (void)data;
  (void)bytes;
  (void)error;
  return DIF_OK;
}

static dif_code value_read(const dif_value* value, void* data, uint64_t bytes, dif_error* error) {
  (void)value;
  (void)error;
  memset(data, 0, bytes);
  return DIF_OK;
}

const dif_backend_api* dif_backend_entry(uint16_t host_abi_major, uint16_t host_abi_minor) {
  static const dif_backend_api api = {
      sizeof(dif_backend_api), DIF_ABI_MAJOR, DIF_ABI_MINOR,    "lying", "0", probe,    context_create,
      context_destroy,         prepare,       prepared_destroy, report,  run, run_loop, value_create,
      value_destroy,           value_write,   value_read,       0,       0};
  (void)host_abi_major;
  (void)host_abi_minor;
  return &api;
}
