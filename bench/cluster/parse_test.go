package main

import (
	"testing"
	"time"

	"github.com/csi-local/csi-local/test/testbed"
)

func TestMedian(t *testing.T) {
	for _, tc := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 3}, 2.5}} {
		if got := median(tc.values); got != tc.want {
			t.Errorf("median(%v) = %v, want %v", tc.values, got, tc.want)
		}
	}
}

func TestCountFailedCreates(t *testing.T) {
	const metrics = `# TYPE csi_sidecar_operations_seconds histogram
csi_sidecar_operations_seconds_bucket{driver_name="d",grpc_status_code="ResourceExhausted",method_name="/csi.v1.Controller/CreateVolume",le="0.1"} 9
csi_sidecar_operations_seconds_count{driver_name="d",grpc_status_code="OK",method_name="/csi.v1.Controller/CreateVolume"} 20
csi_sidecar_operations_seconds_count{driver_name="d",grpc_status_code="ResourceExhausted",method_name="/csi.v1.Controller/CreateVolume"} 3
csi_sidecar_operations_seconds_count{driver_name="d",grpc_status_code="DeadlineExceeded",method_name="/csi.v1.Controller/CreateVolume"} 1
csi_sidecar_operations_seconds_count{driver_name="d",grpc_status_code="Internal",method_name="/csi.v1.Controller/DeleteVolume"} 7
`
	if got, err := countFailedCreates(metrics); err != nil || got != 4 {
		t.Errorf("%d, %v; want 4", got, err)
	}
}

func TestCountIdle(t *testing.T) {
	began := time.Now()
	w := weight{began: began, long: time.Minute}
	at := func(after time.Duration, user, verb string) testbed.Request {
		return testbed.Request{User: user, Verb: verb, Received: began.Add(after)}
	}
	idle, watches := countIdle([]testbed.Request{
		at(-time.Second, account, "get"), at(-time.Second, account, "watch"), // before
		at(time.Second, "somebody", "get"), at(time.Second, "somebody", "watch"),
		at(time.Second, account, "get"), at(time.Second, account, "patch"), at(time.Second, account, "watch"),
		at(2*time.Minute, account, "create"), // work
		at(2*time.Minute, account, "watch"), at(3*time.Minute, account, "watch"),
	}, w, began.Add(150*time.Second))
	if idle != 2 || watches != 2 {
		t.Errorf("%d requests and %d watches, want 2 and 2", idle, watches)
	}
}

func TestParseUsage(t *testing.T) {
	u, err := parseUsage("HWM 110\nRSS 100\nHWM 28\nRSS 28\ncpu 2500000\n")
	if want := (usage{rssBytes: 128 << 10, peakBytes: 138 << 10, cpu: 2500 * time.Millisecond}); err != nil || u != want {
		t.Errorf("%+v, %v", u, err)
	}
	for _, text := range []string{"", "RSS 100\ncpu 1\n", "RSS 100\nRSS 28\n", "RSS a\nRSS b\ncpu 1\n", "RSS 1\nRSS 1\nSwap 1\ncpu 1\n"} {
		if _, err := parseUsage(text); err == nil {
			t.Errorf("%q is taken for a pod", text)
		}
	}
}
