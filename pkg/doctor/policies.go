package doctor

import (
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/csi-local/csi-local/pkg/inspect"
)

func policyChecks() []Check {
	const open = "what the policy should refuse is taken: classes that cannot work, or a node's pod that changes other nodes"
	return []Check{
		{"policy-missing", Warning, open, findNoPolicy},
		{"policy-unbound", Warning, open, findUnbound},
	}
}

// policies are the names that an installation has, behind the release's.
func policies(s *inspect.Snapshot) []string {
	names := []string{"-classes", "-fence-node", "-fence-csinode"}
	if s.Install.Controller != nil {
		names = append(names, "-fence-controller-claims", "-fence-controller-volumes")
	}
	for i := range names {
		names[i] = s.Install.Release + names[i]
	}
	return names
}

func policyObject(name string) Object {
	return Object{Kind: "validatingadmissionpolicy", Name: name}
}

func hasPolicy(s *inspect.Snapshot, name string) bool {
	return slices.ContainsFunc(s.Policies, func(p admissionv1.ValidatingAdmissionPolicy) bool { return p.Name == name })
}

func findNoPolicy(s *inspect.Snapshot) (found []Problem) {
	if s.Install.DaemonSet == nil {
		return nil
	}
	for _, name := range policies(s) {
		if !hasPolicy(s, name) {
			found = append(found, Problem{Object: policyObject(name), Wrong: "there is no such policy", Command: reinstall(s), Repairs: true})
		}
	}
	return found
}

func findUnbound(s *inspect.Snapshot) (found []Problem) {
	if s.Install.DaemonSet == nil {
		return nil
	}
	for _, name := range policies(s) {
		denies := slices.ContainsFunc(s.Bindings, func(b admissionv1.ValidatingAdmissionPolicyBinding) bool {
			return b.Spec.PolicyName == name && slices.Contains(b.Spec.ValidationActions, admissionv1.Deny)
		})
		if hasPolicy(s, name) && !denies {
			found = append(found, Problem{Object: policyObject(name), Wrong: "no binding has it deny anything", Command: reinstall(s), Repairs: true})
		}
	}
	return found
}
