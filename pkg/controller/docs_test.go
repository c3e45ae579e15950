package controller

import (
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// The page for operators names every event, step and metric.
func TestDocumentation(t *testing.T) {
	content, err := os.ReadFile("../../docs/controller.md")
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	metrics := NewMetrics(registry)
	stop, err := metrics.watchLosses(func() losses { return losses{missing: 2, known: 4, allowed: 1} })
	if err != nil {
		t.Fatal(err)
	}
	metrics.step(stepDeleteClaim.String(), resultDone)
	metrics.reconciled("volume", nil, 0)
	words := append(hopelessReasons(), reasonVolumeUnreachable, reasonBrake, stepClearSelectedNode, LostNodeAnnotation("kubernetes.io.csi.local"),
		string(PolicyKeep), string(PolicyDeleteClaim), provisionerFinalizer)
	for _, s := range []step{stepDeleteClaim, stepDeleteVolume, stepFinishDeletion} {
		words = append(words, s.String())
	}
	for _, result := range []string{resultDone, resultDryRun, resultBrake, resultConflict, resultError} {
		words = append(words, "`"+result+"`")
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) != 7 {
		t.Errorf("%d metrics, want 7; is one without a value in this test?", len(families))
	}
	for _, family := range families {
		words = append(words, family.GetName())
		if family.GetName() == metricPrefix+"brake" && family.GetMetric()[0].GetGauge().GetValue() != 1 {
			t.Error("the brake does not show")
		}
	}
	for _, word := range words {
		if !strings.Contains(string(content), word) {
			t.Errorf("docs/controller.md does not name %s", word)
		}
	}
	stop()
	if families, err = registry.Gather(); err != nil || len(families) != 4 {
		t.Errorf("%d metrics when nothing is counted any more, error %v", len(families), err)
	}
}
