package chart

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// promtool runs Prometheus' own checker. The first time it is built, which takes minutes.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "hack/promtool", args...)
	command.Dir = root
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestAlerts_FireWhenTheyShouldAndNotElse(t *testing.T) {
	promtool(t, "check", "rules", "--lint=all", "--lint-fatal", "deploy/chart/csi-local/monitoring/alerts.yaml")
	promtool(t, "test", "rules", "test/chart/alerts_test.yaml")
	cases, err := os.ReadFile("alerts_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name := range queries(t) {
		alert, ok := strings.CutPrefix(name, "alert ")
		// Once as it does not fire, once as it does.
		if ok && (!strings.Contains(string(cases), "alertname: "+alert+"}\n") || !strings.Contains(string(cases), "alertname: "+alert+"\n")) {
			t.Errorf("%s is not tested", alert)
		}
	}
}

// What the dashboard asks for are queries.
func TestDashboard_IsUnderstoodByPrometheus(t *testing.T) {
	type rule struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var rules []rule
	all := queries(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for query := range strings.Lines(all[name]) {
			if strings.HasPrefix(name, "panel ") {
				rules = append(rules, rule{"x", strings.TrimSpace(strings.ReplaceAll(query, "$node", "n1"))})
			}
		}
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", "--lint=none", path)
}
