package driver

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/csi-local/csi-local/pkg/lvm"
)

func TestClassOf(t *testing.T) {
	for _, tt := range []struct {
		method string
		err    error
		want   FailureClass
	}{
		{methodCreate, lvm.ErrNoSpace, FailureCapacity},
		{methodExpand, lvm.ErrNoSpace, FailureCapacity},
		{methodExpand, fmt.Errorf("pool: %w", lvm.ErrThinPoolFull), FailureCapacity},
		{methodCreate, errExhausted, FailureCapacity},
		{methodCreate, lvm.ErrVolumeGroupMissing, FailureCapacity},
		{"NodeStageVolume", lvm.ErrVolumeGroupMissing, FailureTransient},
		{methodCreate, topologyElsewhere.errorf("n1", "key", "n1"), FailureTopology},
		{methodCreate, poolUnknown.errorf("a", "n1", "hint"), FailureTopology},
		{methodCreate, status.Error(codes.PermissionDenied, "no"), FailurePermission},
		{methodCreate, status.Error(codes.Unauthenticated, "who"), FailurePermission},
		{methodCreate, context.DeadlineExceeded, FailureTransient},
		{methodCreate, errBusy, FailureTransient},
		{methodCreate, errInvalid, FailureOther},
		{methodExpand, errOutOfRange, FailureOther},
		{methodCreate, errors.New("unknown"), FailureOther},
	} {
		if got := classOf(tt.err, status.Code(toStatus(tt.method, tt.err))); got != tt.want {
			t.Errorf("%s, %v: %s, want %s", tt.method, tt.err, got, tt.want)
		}
	}
}

func TestInterceptor_CountsFailuresAndTellsThoseOfCapacity(t *testing.T) {
	w := newWorld(t, worldOptions{})
	d := w.driver(t, w.client(t))
	told := 0
	d.onCapacityFailure = func() { told++ }
	for _, err := range []error{lvm.ErrNoSpace, errBusy, nil, errInvalid} {
		_, _ = interceptOn(t, d, methodCreate, func(context.Context, any) (any, error) { return nil, err })
	}
	if told != 1 {
		t.Errorf("told %d times, want once, of the failure for want of space", told)
	}
	wantSeries(t, scrape(t, d.metrics),
		`csi_local_operation_failures_total{class="capacity",code="ResourceExhausted",method="CreateVolume"} 1`,
		`csi_local_operation_failures_total{class="transient",code="Aborted",method="CreateVolume"} 1`,
		`csi_local_operation_failures_total{class="other",code="InvalidArgument",method="CreateVolume"} 1`)
}
