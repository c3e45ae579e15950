package capacity

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestVolumeHost(t *testing.T) {
	const driver = "local.example"
	requires := func(key string, operator v1.NodeSelectorOperator, values ...string) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
	}
	topology := requires(TopologyKey(driver), v1.NodeSelectorOpIn, "n1")
	hostname := requires(v1.LabelHostname, v1.NodeSelectorOpIn, "h1")
	for _, tt := range []struct {
		name       string
		terms      []v1.NodeSelectorTerm
		label      string
		host       string
		byHostname bool
	}{
		{name: "nothing"},
		{"our topology key", []v1.NodeSelectorTerm{topology}, "", "n1", false},
		{"our topology key before the hostname", []v1.NodeSelectorTerm{hostname, topology}, "other", "n1", false},
		{"hostname in the affinity", []v1.NodeSelectorTerm{hostname}, "other", "h1", true},
		{"hostname as a label", nil, "h1", "h1", true},
		{"another driver's topology key", []v1.NodeSelectorTerm{requires(TopologyKey("other.example"), v1.NodeSelectorOpIn, "n2")}, "", "", false},
		{"one of two nodes", []v1.NodeSelectorTerm{requires(TopologyKey(driver), v1.NodeSelectorOpIn, "n1", "n2")}, "", "", false},
		{"any node but one", []v1.NodeSelectorTerm{requires(TopologyKey(driver), v1.NodeSelectorOpNotIn, "n1")}, "", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := &v1.PersistentVolume{}
			if tt.label != "" {
				v.ObjectMeta = metav1.ObjectMeta{Labels: map[string]string{v1.LabelHostname: tt.label}}
			}
			if tt.terms != nil {
				v.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: tt.terms}}
			}
			if host, byHostname := VolumeHost(driver, v); host != tt.host || byHostname != tt.byHostname {
				t.Errorf("host %q by hostname %v, want %q, %v", host, byHostname, tt.host, tt.byHostname)
			}
		})
	}
}
