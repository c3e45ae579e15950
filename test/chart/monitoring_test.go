package chart

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// sources say where the metrics of each prefix are declared. The longest prefix counts.
func sources() map[string]string {
	return map[string]string{
		"csi_local_": "pkg/driver", "csi_local_publish_": "pkg/capacity/reporter",
		"csi_local_controller_": "pkg/controller", "csi_local_scheduler_": "pkg/schedplugin",
	}
}

func metricName() *regexp.Regexp { return regexp.MustCompile(`csi_local_[a-z0-9_]+`) }

// declarations are the sources of each prefix.
func declarations(t *testing.T) map[string]string {
	t.Helper()
	declared := map[string]string{}
	for prefix, folder := range sources() {
		files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", folder, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(file, "_test.go") {
				declared[prefix] += string(text)
			}
		}
	}
	return declared
}

// Each metric that an alert or the dashboard asks for is declared by the code.
func TestMonitoring_AsksForMetricsThatAreThere(t *testing.T) {
	declared := declarations(t)
	for name, query := range queries(t) {
		found := metricName().FindAllString(query, -1)
		if len(found) == 0 {
			t.Errorf("%s asks for no metric of ours: %s", name, query)
		}
		for _, metric := range found {
			if !declaredIn(declared, metric) {
				t.Errorf("%s: nothing declares %s", name, metric)
			}
		}
	}
	if declaredIn(declared, "csi_local_pool_usabel") {
		t.Error("a misspelt name passes")
	}
}

// sourceOf is the prefix under which the metric would be declared.
func sourceOf(declared map[string]string, metric string) (longest string) {
	for prefix := range declared {
		if strings.HasPrefix(metric, prefix) && len(prefix) > len(longest) {
			longest = prefix
		}
	}
	return longest
}

func declaredIn(declared map[string]string, metric string) bool {
	longest := sourceOf(declared, metric)
	rest := strings.TrimPrefix(metric, longest)
	for _, suffix := range []string{"", "_bucket", "_sum", "_count"} { // a histogram has these
		if name, ok := strings.CutSuffix(rest, suffix); ok && strings.Contains(declared[longest], `"`+name+`"`) {
			return true
		}
	}
	return false
}

// queries are all PromQL expressions, by where they stand; of alerts with their texts.
func queries(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
	read(t, "alerts.yaml", func(text []byte) error { return yaml.Unmarshal(text, &rules) })
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			out["alert "+rule.Alert] = rule.Expr + "\n" + rule.Annotations["summary"] + "\n" + rule.Annotations["description"]
		}
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	read(t, "dashboard.json", func(text []byte) error { return json.Unmarshal(text, &dashboard) })
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			out["panel "+panel.Title] += target.Expr + "\n"
		}
	}
	if len(rules.Groups) == 0 || len(dashboard.Panels) == 0 {
		t.Fatal("there is nothing to check")
	}
	return out
}

func read(t *testing.T, name string, into func([]byte) error) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "deploy/chart/csi-local/monitoring", name))
	if err == nil {
		err = into(text)
	}
	if err != nil {
		t.Fatal(err)
	}
}
