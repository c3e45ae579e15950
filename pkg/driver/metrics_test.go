package driver

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc/codes"

	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/poolconfig"
)

// scrape returns what /metrics says, as a map from series to its line.
func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	if rec.Code != 200 {
		t.Fatalf("/metrics: %d\n%s", rec.Code, rec.Body)
	}
	return rec.Body.String()
}

func wantSeries(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no series %q in\n%s", line, text)
		}
	}
}

func TestMetrics_CallsPoolsAndCommands(t *testing.T) {
	w := newWorld(t, worldOptions{})
	p := w.start(t)
	mustCreate(t, p, createReq("v1", "thick", 8*mib))
	markUsed(t, p, mustCreate(t, p, createReq("v2", "thick", 8*mib)).GetVolumeId(), "")
	_, err := p.controller.CreateVolume(t.Context(), createReq("v3", "thick", 100*gib))
	wantCode(t, "CreateVolume", err, codes.ResourceExhausted)
	p.metrics.ObserveLVM(lvm.CommandStats{Command: "lvcreate", Run: time.Second, Process: true})
	p.metrics.ObserveLVM(lvm.CommandStats{Command: "lvcreate", Run: time.Second, ExitCode: 5})
	p.metrics.ObserveLVM(lvm.CommandStats{Command: "lvs", ExitCode: -1})
	text := scrape(t, p.metrics)
	wantSeries(t, text,
		`csi_local_operations_seconds_count{code="OK",method="CreateVolume"} 2`,
		`csi_local_operations_seconds_count{code="ResourceExhausted",method="CreateVolume"} 1`,
		`csi_local_operations_running{method="CreateVolume"} 0`,
		`csi_local_lvm_command_seconds_count{command="lvcreate",result="success"} 1`,
		`csi_local_lvm_command_seconds_count{command="lvcreate",result="failure"} 1`,
		`csi_local_lvm_command_seconds_count{command="lvs",result="lost"} 1`,
		`csi_local_lvm_processes_started_total 1`,
		`csi_local_pool_size_bytes{pool="thick"} 4.294967296e+09`,
		`csi_local_pool_allocatable_bytes{pool="thick"} 4.294967296e+09`,
		`csi_local_pool_allocated_bytes{pool="thick"} 1.6777216e+07`,
		`csi_local_pool_volumes{pool="thick",state="new"} 1`,
		`csi_local_pool_volumes{pool="thick",state="used"} 1`,
		`csi_local_pool_usable{pool="thin"} 1`,
		`csi_local_pool_thin_data_percent{pool="thin"} 0`,
	)
	families, err := p.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		checkFamily(t, family)
	}
}

func checkFamily(t *testing.T, family *dto.MetricFamily) {
	t.Helper()
	if len(family.GetHelp()) < 10 {
		t.Errorf("%s has no help text", family.GetName())
	}
	name := family.GetName()
	if !strings.HasPrefix(name, metricPrefix) && !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "promhttp_") &&
		!strings.HasPrefix(name, "process_") {
		t.Errorf("%s does not begin with %s", name, metricPrefix)
	}
}

// What is gone has no series, and what is broken no figure that could be believed.
func TestMetrics_SeriesVanish(t *testing.T) {
	w := newWorld(t, worldOptions{})
	p := w.start(t)
	w.mu.Lock()
	w.pools = w.pools[:1]
	w.mu.Unlock()
	w.setPool("thick", func(pool *poolconfig.Pool) { pool.VolumeGroup = "vg-none" })
	text := scrape(t, p.metrics)
	wantSeries(t, text, `csi_local_pool_usable{pool="thick"} 0`)
	for _, unwanted := range []string{`pool="thin"`, `csi_local_pool_size_bytes{pool="thick"}`, `csi_local_pool_allocatable_bytes{pool="thick"}`} {
		if strings.Contains(text, unwanted) {
			t.Errorf("there still is a series with %s", unwanted)
		}
	}
}

func TestMetrics_WithoutLVM(t *testing.T) {
	w := newWorld(t, worldOptions{})
	p := w.start(t)
	_, err := p.identity.Probe(t.Context(), &csi.ProbeRequest{})
	if err != nil {
		t.Fatal(err)
	}
	p.metrics.beginCall("Hanging")
	wantSeries(t, scrape(t, p.metrics), `csi_local_operations_running{method="Hanging"} 1`)
}
