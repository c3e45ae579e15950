package guest

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSpec_IsReadAsItWasWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spec.json")
	want := Spec{
		Name: "node-1", Address: "10.80.0.11", Gateway: "10.80.0.1", PodSubnet: "10.244.1.0/24", ClusterDNS: "10.0.0.10",
		Kubelet: "/bin/kubelet", Kubeconfig: "/a b", VolumeGroups: []string{"vg", ""}, Import: []string{"/image.tar"},
		KubeletConfig: map[string]any{"maxPods": 20.0},
	}
	if err := want.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := readSpec(path)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	if _, err := readSpec(path + "x"); err == nil {
		t.Error("a file that is not there was read")
	}
}

func TestKubelet_CallerHasTheLastWord(t *testing.T) {
	s := Spec{ClusterDNS: "10.0.0.10", KubeletConfig: map[string]any{"maxPods": 20, "evictionHard": map[string]string{"memory.available": "1Gi"}}}
	got := s.kubelet()
	for key, want := range map[string]any{
		"maxPods": 20, "evictionHard": map[string]string{"memory.available": "1Gi"}, "clusterDNS": []string{"10.0.0.10"}, "kind": "KubeletConfiguration",
	} {
		if diff := cmp.Diff(want, got[key]); diff != "" {
			t.Errorf("%s -want +got:\n%s", key, diff)
		}
	}
}
