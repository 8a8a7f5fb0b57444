// The payload of a .difplan of any bytes, in a right envelope: refused with one sentence, or byte for byte
// what the writer writes; and what is read can be printed and compared.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "fuzz/promise.h"
#include "io/sealed_envelope.h"
#include "pipelines/plan_report.h"
#include "plan/plan_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using dif::fuzz::promise;
  const auto sealed = dif::io::seal(dif::io::kPlanKind, 1, std::as_bytes(std::span(data, size)));
  const auto record = dif::plan::parse_plan(sealed, "input");
  if (!record) {
    promise(record.error().message.size() < 4096, "a refusal is one sentence");
    return 0;
  }
  const auto again = dif::plan::encode_plan(*record);
  promise(again && std::ranges::equal(*again, sealed), "what is read is what the writer writes");
  promise(dif::plan::plan_identity(*record).size() == 64, "and has an identity");
  promise(dif::diff_plans(*record, *record).empty(), "a plan does not differ from itself");
  (void)dif::plan_text(*record);
  for (const dif::plan::Decision& decision : record->decisions) {
    if (decision.subject == dif::plan::SubjectKind::kPlan) continue;
    const dif::PlanSubject subject = {decision.subject, decision.id};
    promise(dif::check_subject(*record, subject).has_value(), "decisions are about what is there");
    (void)dif::explain_text(*record, subject, nullptr);
  }
  return 0;
}
