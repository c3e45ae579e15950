package driver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"k8s.io/klog/v2/ktesting"

	"github.com/csi-local/csi-local/pkg/lvm/lvmfake"
)

// intercept passes one call through the interceptor and returns what was logged.
func intercept(t *testing.T, verbosity int, method string, req any, handler grpc.UnaryHandler) (string, error) {
	t.Helper()
	w := newWorld(t, worldOptions{})
	client := w.client(t)
	d := w.driver(t, client)
	return interceptWith(t, d, verbosity, method, req, handler)
}

// interceptOn passes one call through the interceptor of a driver that the test looks at afterwards.
func interceptOn(t *testing.T, d *Driver, method string, handler grpc.UnaryHandler) (string, error) {
	t.Helper()
	return interceptWith(t, d, 0, method, &csi.CreateVolumeRequest{Name: "v"}, handler)
}

func interceptWith(t *testing.T, d *Driver, verbosity int, method string, req any, handler grpc.UnaryHandler) (string, error) {
	t.Helper()
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.Verbosity(verbosity), ktesting.BufferLogs(true)))
	_, err := d.interceptor(logger)(t.Context(), req, &grpc.UnaryServerInfo{FullMethod: "/csi.v1.Controller/" + method}, handler)
	return logger.GetSink().(ktesting.Underlier).GetBuffer().String(), err
}

func TestInterceptor_LogsEachCallOnce(t *testing.T) {
	secret := &csi.CreateVolumeRequest{Name: "pvc-1", Secrets: map[string]string{"key": "hidden"}}
	ok := func(context.Context, any) (any, error) { return nil, nil }
	fails := func(err error) grpc.UnaryHandler {
		return func(context.Context, any) (any, error) { return nil, err }
	}
	for _, tt := range []struct {
		name      string
		verbosity int
		method    string
		req       any
		handler   grpc.UnaryHandler
		lines     int
		has       []string
	}{
		{"a change", 2, "CreateVolume", secret, ok, 1, []string{`rpc="CreateVolume"`, `volumeID="pvc-1"`, `code="OK"`, "duration="}},
		{"a change, quiet", 1, "CreateVolume", secret, ok, 0, nil},
		{"with its request", 5, "CreateVolume", secret, ok, 1, []string{"stripped"}},
		{"a probe", 4, "Probe", &csi.ProbeRequest{}, ok, 0, nil},
		{"a probe, talkative", 5, "Probe", &csi.ProbeRequest{}, ok, 1, nil},
		{"come again", 2, "DeleteVolume", &csi.DeleteVolumeRequest{VolumeId: "vg/lv"}, fails(errBusy), 1, []string{`volumeID="vg/lv"`, `code="Aborted"`, "reason="}},
		{"a failure", 0, "CreateVolume", secret, fails(errConflict), 1, []string{`code="AlreadyExists"`, "err="}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log, _ := intercept(t, tt.verbosity, tt.method, tt.req, tt.handler)
			if got := strings.Count(log, "Call "); got != tt.lines {
				t.Errorf("%d lines, want %d:\n%s", got, tt.lines, log)
			}
			for _, part := range tt.has {
				if !strings.Contains(log, part) {
					t.Errorf("the log does not have %q:\n%s", part, log)
				}
			}
			if strings.Contains(log, "hidden") {
				t.Errorf("the log has a secret:\n%s", log)
			}
		})
	}
}

func TestInterceptor_MakesCodes(t *testing.T) {
	for _, tt := range []struct {
		name string
		req  proto.Message
		err  error
		want codes.Code
	}{
		{"success", &csi.DeleteVolumeRequest{VolumeId: "vg/lv"}, nil, codes.OK},
		{"kind", &csi.DeleteVolumeRequest{VolumeId: "vg/lv"}, fmt.Errorf("x: %w", errPrecondition), codes.FailedPrecondition},
		{"unknown", &csi.DeleteVolumeRequest{VolumeId: "vg/lv"}, errors.New("x"), codes.Internal},
		{"a status stays", &csi.DeleteVolumeRequest{VolumeId: "vg/lv"}, status.Error(codes.Unimplemented, "x"), codes.Unimplemented},
		{"too long", &csi.DeleteVolumeRequest{VolumeId: strings.Repeat("v", 129)}, nil, codes.InvalidArgument},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := intercept(t, 0, "DeleteVolume", tt.req, func(context.Context, any) (any, error) { return nil, tt.err })
			wantCode(t, "call", err, tt.want)
		})
	}
}

// harvester/harvester#11105: one nil pointer took a node's storage away.
func TestInterceptor_PanicConcernsOneCall(t *testing.T) {
	log, err := intercept(t, 0, "DeleteVolume", &csi.DeleteVolumeRequest{}, func(context.Context, any) (any, error) {
		var nothing *csi.Volume
		return nothing.VolumeId, nil
	})
	wantCode(t, "call", err, codes.Internal)
	if !strings.Contains(log, "interceptors_test.go") {
		t.Errorf("the log does not have the stack:\n%s", log)
	}
}

func TestServe_PanicInAnEffectConcernsOneCall(t *testing.T) {
	w := newWorld(t, worldOptions{})
	p := w.start(t)
	p.lvm.SetHook(func(_ context.Context, c lvmfake.Call) error {
		if c.Ref.Name == "bad" {
			panic("bug")
		}
		return nil
	})
	_, err := p.controller.CreateVolume(t.Context(), createReq("bad", "thick", 8*mib))
	wantCode(t, "CreateVolume", err, codes.Internal)
	mustCreate(t, p, createReq("good", "thick", 8*mib))
	p.lvm.SetHook(nil)
	mustCreate(t, p, createReq("bad", "thick", 8*mib))
}
