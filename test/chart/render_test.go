package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/poolconfig"
)

const root = "../.."

// modes are the folders of deploy/manifests with the values that they are made from.
func modes() map[string]string {
	return map[string]string{"second-scheduler": "second", "replace-scheduler": "replace", "storage-capacity": "none"}
}

// helm runs the pinned Helm, and returns what it printed.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "hack/chart", append([]string{"helm"}, args...)...)
	command.Dir = root
	out, err := command.CombinedOutput()
	return string(out), err
}

func template(t *testing.T, flags ...string) (string, error) {
	t.Helper()
	return helm(t, append([]string{"template", "csi-local", "deploy/chart/csi-local", "--namespace", "kube-system"}, flags...)...)
}

func manifestPath(folder string) string {
	return filepath.Join(root, "deploy/manifests", folder, "csi-local.yaml")
}

// documents are the objects of a file or of what Helm printed.
func documents(t *testing.T, text string) []map[string]any {
	t.Helper()
	var objects []map[string]any
	for _, document := range strings.Split("\n"+text, "\n---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		if object != nil {
			objects = append(objects, object)
		}
	}
	return objects
}

// as reads an object strictly as its type.
func as[T any](t *testing.T, object map[string]any) (out T) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object, &out, true); err != nil {
		t.Fatal(err)
	}
	return out
}

// decode reads of an object what the type has, for types that others define.
func decode[T any](t *testing.T, object map[string]any) (out T) {
	t.Helper()
	text, err := yaml.Marshal(object)
	if err == nil {
		err = yaml.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func nameOf(object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	return name
}

func TestManifests_AreWhatTheChartMakes(t *testing.T) {
	command := exec.CommandContext(t.Context(), "hack/chart", "check")
	command.Dir = root
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// A role says what it may do: no wildcards, no secrets, nothing that makes it more than it is.
func TestRoles_AreNarrow(t *testing.T) {
	for folder := range modes() {
		text, err := os.ReadFile(manifestPath(folder))
		if err != nil {
			t.Fatal(err)
		}
		roles := 0
		for _, object := range documents(t, string(text)) {
			var rules []rbacv1.PolicyRule
			switch object["kind"] {
			case "ClusterRole":
				rules = as[rbacv1.ClusterRole](t, object).Rules
			case "Role":
				rules = as[rbacv1.Role](t, object).Rules
			default:
				continue
			}
			roles++
			for _, rule := range rules {
				for _, problem := range tooWide(rule) {
					t.Errorf("%s: %s %s: %s in %v", folder, object["kind"], nameOf(object), problem, rule)
				}
			}
		}
		if roles == 0 {
			t.Errorf("%s has no roles", folder)
		}
	}
}

func tooWide(rule rbacv1.PolicyRule) (problems []string) {
	for _, verb := range rule.Verbs {
		switch verb {
		case "*", "escalate", "bind", "impersonate", "deletecollection":
			problems = append(problems, "verb "+verb)
		}
	}
	for _, group := range rule.APIGroups {
		if group == "*" {
			problems = append(problems, "group *")
		}
	}
	for _, resource := range rule.Resources {
		kind, sub, _ := strings.Cut(resource, "/")
		if kind == "*" || kind == "secrets" || sub == "*" || sub == "exec" || sub == "proxy" || sub == "token" {
			problems = append(problems, "resource "+resource)
		}
	}
	return problems
}

func TestTooWide(t *testing.T) {
	for _, rule := range []rbacv1.PolicyRule{
		{Verbs: []string{"*"}, APIGroups: []string{""}, Resources: []string{"pods"}},
		{Verbs: []string{"get"}, APIGroups: []string{"*"}, Resources: []string{"pods"}},
		{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}},
		{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"pods/exec"}},
	} {
		if len(tooWide(rule)) != 1 {
			t.Errorf("%v is narrow", rule)
		}
	}
}

// What the ConfigMap holds is what the driver reads.
func TestPools_AreReadByTheDriver(t *testing.T) {
	out, err := template(t, "--set-json", `pools=[{"name":"pool-ssd","volumeGroup":"vg-ssd","type":"thick","reserve":"10Gi"}]`,
		"--set-json", `nodes={"n1":{"pools":[{"name":"pool-ssd","reserve":"1Gi"}]}}`)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, object := range documents(t, out) {
		if object["kind"] != "ConfigMap" || nameOf(object) != "csi-local-pools" {
			continue
		}
		path := filepath.Join(t.TempDir(), "pools.yaml")
		if err := os.WriteFile(path, []byte(as[corev1.ConfigMap](t, object).Data["pools.yaml"]), 0o600); err != nil {
			t.Fatal(err)
		}
		config, err := poolconfig.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		for node, reserve := range map[string]int64{"n1": 1 << 30, "n2": 10 << 30} {
			if pools := config.ForNode(node); len(pools) != 1 || pools[0].Name != "pool-ssd" || pools[0].ReserveBytes != reserve {
				t.Errorf("%s: %+v", node, pools)
			}
		}
		return
	}
	t.Error("there is no ConfigMap csi-local-pools")
}

// The classes that users' manifests name, with parameters that make volumes.
func TestClasses_AreThoseThatTheDriverServes(t *testing.T) {
	text, err := os.ReadFile(manifestPath("second-scheduler"))
	if err != nil {
		t.Fatal(err)
	}
	pools := map[string]string{}
	for _, object := range documents(t, string(text)) {
		if object["kind"] != "StorageClass" {
			continue
		}
		class := as[storagev1.StorageClass](t, object)
		parameters, err := capacity.ParseClassParameters(class.Parameters)
		if err != nil || class.Provisioner != capacity.DefaultDriverName || class.AllowVolumeExpansion == nil || !*class.AllowVolumeExpansion ||
			class.VolumeBindingMode == nil || *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer {
			t.Errorf("%+v, %v", class, err)
		}
		pools[class.Name] = parameters.Pool
	}
	if diff := cmp.Diff(map[string]string{"local-dynamic-ssd": "pool-ssd", "local-dynamic-hdd": "pool-hdd"}, pools); diff != "" {
		t.Error(diff)
	}
}

// Labels of nodes become a selector that Kubernetes' own parser reads.
func TestPublishSelector(t *testing.T) {
	for values, want := range map[string]string{"{}": "", `{"zone":"a","csi-local/publish":"true"}`: "csi-local/publish=true,zone=a"} {
		out, err := template(t, "--show-only", "templates/node.yaml", "--set-json", "node.publishSelector="+values)
		if err != nil {
			t.Fatal(out)
		}
		_, flag, found := strings.Cut(out, "- --publish-selector=")
		flag, _, _ = strings.Cut(flag, "\n")
		selector, err := labels.Parse(flag)
		if found != (want != "") || err != nil || selector.String() != want {
			t.Errorf("%s: flag %q, %v", values, flag, err)
		}
	}
}

func TestValues_WrongOnesAreRefused(t *testing.T) {
	for _, tt := range []struct{ set, reason string }{
		{"drivername=x", "drivername"},
		{"driverName=Not_A_Name", "driverName"},
		{"node.kubeletdir=/x", "kubeletdir"},
		{"node.kubeletDir=relative", "kubeletDir"},
		{"node.maxVolumes=0", "maxVolumes"},
		{"node.publishSelector.zone=1", "publishSelector"},
		{"scheduler.mode=both", "mode"},
		{"scheduler.oversellRatio=1", "oversellRatio"},
		{"scheduler.scoring=spread", "scoring"},
		{"storageClasses[0].name=a", "parameters"},
		{"policies.enabled=maybe", "enabled"},
	} {
		if out, err := template(t, "--set", tt.set); err == nil || !strings.Contains(out, tt.reason) {
			t.Errorf("%s: %v\n%.500s", tt.set, err, out)
		}
	}
}
