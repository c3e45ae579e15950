package inspect_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/csi-local/csi-local/pkg/inspect"
	"github.com/csi-local/csi-local/pkg/inspect/inspecttest"
)

const driver = inspecttest.Driver

func healthy(t testing.TB, nodes, volumes int) *inspecttest.Cluster {
	t.Helper()
	return inspecttest.Healthy(t, "../../deploy/manifests/second-scheduler", nodes, volumes)
}

func TestRead_KeepsWhatIsTheDrivers(t *testing.T) {
	c := healthy(t, 2, 1)
	c.Put(
		&v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}},
		&v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "foreign"}},
		inspecttest.Claim("waits", 1),
		inspecttest.UserPod("waits", "", "waits"),
		inspecttest.UserPod("foreign", "", "foreign"),
	)
	done := inspecttest.UserPod("done", "n1", "n1-0")
	done.Status.Phase = v1.PodSucceeded
	c.Put(done)
	s := c.Snapshot(t, driver)
	var got []string
	for i := range s.Volumes {
		got = append(got, "volume "+s.Volumes[i].Name)
	}
	for i := range s.Claims {
		got = append(got, "claim "+s.Claims[i].Name)
	}
	for i := range s.Pods {
		got = append(got, "pod "+s.Pods[i].Name)
	}
	want := []string{"volume pvc-uid-n1-0", "volume pvc-uid-n2-0", "claim n1-0", "claim n2-0", "claim waits", "pod n1-0", "pod n2-0", "pod waits"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if in := s.Install; in.Release != "csi-local" || in.Controller == nil || in.Scheduler == nil || in.ControllerLease == nil || in.SchedulerLease == nil ||
		len(in.Pods) != 2 || len(in.PoolsFile.ForNode("n1")) != 2 || cmp.Diff([]string{"csi-local-scheduler"}, in.Scheduling.Profiles) != "" {
		t.Errorf("installation %+v", in)
	}
	if s.Requests != c.Asked || len(s.Policies) != 5 || len(s.Bindings) != 5 || len(s.Classes) != 2 || s.CSIDriver == nil {
		t.Errorf("%d requests of %d, %d policies, %d bindings, %d classes, CSIDriver %v", s.Requests, c.Asked, len(s.Policies), len(s.Bindings), len(s.Classes), s.CSIDriver)
	}
}

// An installation of another driver is not this one's.
func TestRead_FindsTheInstallationOfTheDriver(t *testing.T) {
	c := healthy(t, 1, 0)
	if s := c.Snapshot(t, "other.example"); s.Install.DaemonSet != nil || s.CSIDriver != nil || len(s.Classes) != 0 {
		t.Errorf("%+v", s.Install)
	}
}

// The number of requests is bounded, and told.
func TestRead_NumberOfRequests(t *testing.T) {
	c := healthy(t, 40, 5)
	small := c.Snapshot(t, driver).Requests
	c.PageSize = 10
	if paged := c.Snapshot(t, driver).Requests; small > 20 || paged < small+3+3+20+20 {
		t.Errorf("%d requests, and %d in pages of 10", small, paged)
	}
	c.Asked = 0
	_, err := inspect.Read(t.Context(), c, driver, 30)
	if !errors.Is(err, inspect.ErrTooManyRequests) || c.Asked != 30 {
		t.Errorf("%d requests: %v", c.Asked, err)
	}
}

// What cannot be read is an error that names it, and all that cannot be.
func TestRead_Errors(t *testing.T) {
	c := healthy(t, 1, 1)
	for _, kind := range []inspect.Kind{inspect.Nodes, inspect.Volumes, inspect.Policies, inspect.Leases} {
		c.Fail[kind] = apierrors.NewForbidden(schema.GroupResource{Resource: string(kind)}, "", errors.New("no"))
	}
	_, err := inspect.Read(t.Context(), c, driver, inspect.DefaultMaxRequests)
	for kind := range c.Fail {
		if err == nil || !strings.Contains(err.Error(), string(kind)) {
			t.Errorf("%s is not named: %v", kind, err)
		}
	}
	c.Fail["version"], c.Asked = errors.New("connection refused"), 0
	if _, err := inspect.Read(t.Context(), c, driver, inspect.DefaultMaxRequests); err == nil || c.Asked != 1 {
		t.Errorf("%d requests to a server that does not answer: %v", c.Asked, err)
	}
}

// forgetful is an API server whose tokens expire at once.
type forgetful struct {
	*inspecttest.Cluster
	expired int
}

func (f *forgetful) List(ctx context.Context, kind inspect.Kind, namespace string, options metav1.ListOptions) (runtime.Object, error) {
	if options.Continue != "" && !strings.HasPrefix(options.Continue, "late") {
		f.expired++
		err := apierrors.NewResourceExpired("too old")
		err.ErrStatus.Continue = "late" + options.Continue
		return nil, err
	}
	options.Continue = strings.TrimPrefix(options.Continue, "late")
	return f.Cluster.List(ctx, kind, namespace, options)
}

// A list that takes longer than etcd remembers goes on where it was.
func TestRead_ExpiredToken(t *testing.T) {
	f := &forgetful{Cluster: healthy(t, 7, 1)}
	f.PageSize = 3
	s, err := inspect.Read(t.Context(), f, driver, inspect.DefaultMaxRequests)
	if err != nil || len(s.Nodes) != 7 || len(s.Volumes) != 7 || f.expired == 0 {
		t.Errorf("%d nodes after %d tokens expired: %v", len(s.Nodes), f.expired, err)
	}
}
