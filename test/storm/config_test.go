package storm

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const shippedConfig = "../../deploy/scheduler/config.yaml"

// What both schedulers get may differ in the plugin, and in nothing else.
func TestSchedulerConfig(t *testing.T) {
	render := func(c schedulerConfig) map[string]any {
		t.Helper()
		c.shipped, c.kubeconfig = shippedConfig, "/kubeconfig"
		content, err := c.render()
		if err != nil {
			t.Fatal(err)
		}
		var file map[string]any
		if err := yaml.Unmarshal(content, &file); err != nil {
			t.Fatal(err)
		}
		return file
	}
	local, stock := render(schedulerConfig{}), render(schedulerConfig{stock: true})
	profile := local["profiles"].([]any)[0].(map[string]any)
	if profile["plugins"] == nil || profile["pluginConfig"] == nil {
		t.Errorf("the plugin is not in %v", profile)
	}
	want := []any{map[string]any{"schedulerName": schedulerName}}
	if diff := cmp.Diff(want, stock["profiles"]); diff != "" {
		t.Errorf("kube-scheduler's profiles (-want +got):\n%s", diff)
	}
	want = []any{map[string]any{"schedulerName": "another"}}
	if diff := cmp.Diff(want, render(schedulerConfig{stock: true, name: "another"})["profiles"]); diff != "" {
		t.Errorf("kube-scheduler's profiles under another name (-want +got):\n%s", diff)
	}
	delete(local, "profiles")
	delete(stock, "profiles")
	if diff := cmp.Diff(local, stock); diff != "" {
		t.Errorf("beside the profiles (-local +stock):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"kubeconfig": "/kubeconfig", "qps": 200.0, "burst": 400.0}, local["clientConnection"]); diff != "" {
		t.Errorf("clientConnection (-want +got):\n%s", diff)
	}
	quick := render(schedulerConfig{quickLease: true})["leaderElection"].(map[string]any)
	if quick["leaderElect"] != true || quick["leaseDuration"] != "6s" {
		t.Errorf("quick lease: %v", quick)
	}
	alone := render(schedulerConfig{alone: true, unlimited: true})
	if alone["leaderElection"].(map[string]any)["leaderElect"] != false || alone["clientConnection"].(map[string]any)["qps"] != float64(unlimitedQPS) {
		t.Errorf("alone and unlimited: %v", alone)
	}
}
