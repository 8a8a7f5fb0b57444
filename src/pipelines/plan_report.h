#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "dif/status.h"
#include "ir/program.h"
#include "plan/plan_record.h"

/// Plans for people and for machines: what difplan prints. A program, where there is one, gives names; it may
/// be null. Nothing is inferred: what no decision says is not there.
namespace dif {

std::string plan_text(const plan::PlanRecord& plan);
nlohmann::ordered_json plan_json(const plan::PlanRecord& plan);

/// One difference between two plans.
struct PlanDifference {
  std::string what;  ///< "backend", "step of operation 12", "value 7", "decision kernel of operation 12"
  std::string a, b;  ///< empty: not there
};

/// First what would run, then the decisions and their reasons.
std::vector<PlanDifference> diff_plans(const plan::PlanRecord& a, const plan::PlanRecord& b);
std::string diff_text(const std::vector<PlanDifference>& differences);
nlohmann::ordered_json diff_json(const std::vector<PlanDifference>& differences);

std::string residency_text(const plan::Residency& residency, const ir::Program* program);
nlohmann::ordered_json residency_json(const plan::Residency& residency, const ir::Program* program);

/// An operation or a value of a plan, with the decisions about it.
struct PlanSubject {
  plan::SubjectKind kind = plan::SubjectKind::kOperation;
  std::uint32_t id = 0;
};
/// Errors: InvalidInput (there is no such operation or value).
Status check_subject(const plan::PlanRecord& plan, const PlanSubject& subject);
/// Pre: check_subject passes.
std::string explain_text(const plan::PlanRecord& plan, const PlanSubject& subject,
                         const ir::Program* program);
nlohmann::ordered_json explain_json(const plan::PlanRecord& plan, const PlanSubject& subject,
                                    const ir::Program* program);

}  // namespace dif
