package imports

import (
	"fmt"
	"strings"
)

// GoMod is what "go mod edit -json" says, as far as it matters.
type GoMod struct {
	Module  struct{ Path string }
	Require []struct{ Path, Version string }
	Replace []struct {
		Old, New struct{ Path, Version string }
	}
}

// CheckModule returns what is wrong with the main module's go.mod. Others import
// this module, and a replace directive would not reach them.
func CheckModule(mod GoMod) []string {
	var findings []string
	if mod.Module.Path != Module {
		findings = append(findings, fmt.Sprintf("go.mod: module is %q, want %q", mod.Module.Path, Module))
	}
	for _, r := range mod.Replace {
		findings = append(findings, fmt.Sprintf("go.mod: replaces %s: the main module has no replace directives", r.Old.Path))
	}
	for _, r := range mod.Require {
		if r.Path == "k8s.io/kubernetes" {
			findings = append(findings, "go.mod: requires k8s.io/kubernetes: only a nested module may")
		}
		if strings.HasSuffix(r.Version, "+incompatible") {
			findings = append(findings, fmt.Sprintf("go.mod: %s %s has no module of its own", r.Path, r.Version))
		}
	}
	return findings
}
