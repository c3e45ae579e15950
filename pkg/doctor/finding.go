package doctor

import (
	"cmp"
	"slices"

	"github.com/csi-local/csi-local/pkg/inspect"
)

// Severity says how bad a finding is.
type Severity string

const (
	// Error: pods or volumes cannot work, or bytes may be promised twice.
	Error Severity = "error"
	// Warning: it works, and will not go on so, or not as somebody expects.
	Warning Severity = "warning"
)

// Object is what a finding is about.
type Object struct {
	// Kind is as kubectl takes it, in the singular.
	Kind string `json:"kind"`
	// Namespace is empty for objects that are in none.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// String is kind, namespace and name.
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// Problem is what a check finds about one object.
type Problem struct {
	Object Object `json:"object"`
	// Node and Pool are where it is, if it is on one node, or in one pool of it.
	Node string `json:"node,omitempty"`
	Pool string `json:"pool,omitempty"`
	// Wrong says what is wrong, in one sentence without a full stop.
	Wrong string `json:"wrong"`
	// Command is for a shell, in the root of this repository where it names files of
	// it. There always is one.
	Command string `json:"command"`
	// Repairs tells that the command mends it; otherwise it shows what a person has to
	// know who does that.
	Repairs bool `json:"repairs"`
}

// Finding is a problem, with what is the same for all problems of a check.
type Finding struct {
	// Check is the name of the check.
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	Problem
	// Matters says why it matters.
	Matters string `json:"matters"`
}

// Check looks for one kind of problem.
type Check struct {
	// Name is stable: words with hyphens, the subject first.
	Name     string
	Severity Severity
	// Matters says why it matters, in one sentence without a full stop.
	Matters string
	find    func(s *inspect.Snapshot) []Problem
}

// Checks are all of them, in the order of their names.
func Checks() []Check {
	checks := slices.Concat(installChecks(), csiDriverChecks(), classChecks(), nodeChecks(), publicationChecks(), poolChecks(),
		volumeChecks(), claimChecks(), schedulerChecks(), controllerChecks(), policyChecks(), versionChecks(), eventChecks())
	slices.SortFunc(checks, func(a, b Check) int { return cmp.Compare(a.Name, b.Name) })
	return checks
}

// Examine applies all checks. Errors come first, then it goes by check and object.
func Examine(s *inspect.Snapshot) []Finding {
	found := []Finding{}
	for _, c := range Checks() {
		for _, p := range c.find(s) {
			if p.Object.Kind == "node" || p.Object.Kind == "csinode" {
				p.Node = p.Object.Name
			}
			found = append(found, Finding{Check: c.Name, Severity: c.Severity, Matters: c.Matters, Problem: p})
		}
	}
	slices.SortStableFunc(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Check, b.Check), cmp.Compare(a.Object.String(), b.Object.String()), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Wrong, b.Wrong))
	})
	return found
}

// problemIf is the problem, or none.
func problemIf(found bool, p Problem) []Problem {
	if !found {
		return nil
	}
	return []Problem{p}
}
