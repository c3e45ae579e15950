package controller

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metadatafake "k8s.io/client-go/metadata/fake"

	"github.com/csi-local/csi-local/pkg/capacity"
)

func TestClient_NodeGone(t *testing.T) {
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client := Client{DriverName: testDriver, Metadata: metadatafake.NewSimpleMetadataClient(scheme, &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{
			v1.LabelHostname: "host-1", capacity.TopologyKey(testDriver): "topology-1", "other": "n2",
		}},
	})}
	for host, want := range map[string]bool{
		"n1": false, "host-1": false, "topology-1": false,
		"n2": true, "host": true,
		strings.Repeat("n", 64): true, // no label can be that long, a name can
	} {
		if gone, err := client.NodeGone(t.Context(), host); err != nil || gone != want {
			t.Errorf("%q: gone %v, error %v, want %v", host, gone, err, want)
		}
	}
}

// A write that would not be conditional is refused.
func TestClient_UnreadObject(t *testing.T) {
	v, claim := makeVolume("v", "n1"), makeClaim("c")
	client := Client{DriverName: testDriver}
	if err := client.RemoveFinalizer(t.Context(), v); err == nil {
		t.Error("a finalizer is removed of an object that was not read")
	}
	if err := client.ClearSelectedNode(t.Context(), claim); err == nil {
		t.Error("an annotation is removed of an object that was not read")
	}
}
