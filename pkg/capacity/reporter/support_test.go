package reporter

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestSupport(t *testing.T) {
	const (
		kept     = "volume count is kept up to date"
		fixed    = "stays what it was at registration"
		ifGated  = "is changed if the API server has the feature gate"
		ifLet    = "is changed if the API server lets it"
		refreshs = "; kubelet refreshes it too"
		skewed   = "newer than the API server"
	)
	for name, c := range map[string]struct {
		apiServer, kubelet string
		fixed              bool
		says, not          []string
	}{
		"both new":                 {"v1.37.2", "v1.37.2", false, []string{"API server v1.37.2, kubelet v1.37.2", kept, refreshs}, []string{skewed, "gate"}},
		"for good":                 {"v1.36.0", "v1.36.0", false, []string{kept, refreshs}, []string{skewed}},
		"on by default":            {"v1.35.0", "v1.35.9", false, []string{kept, refreshs}, []string{skewed}},
		"beta, off by default":     {"v1.34.3", "v1.34.3", false, []string{ifGated, "too if it has the feature gate"}, []string{kept}},
		"alpha":                    {"v1.33.0", "v1.33.0", false, []string{ifGated, "too if it has the feature gate"}, []string{kept}},
		"before it":                {"v1.32.9", "v1.32.9", true, []string{fixed}, []string{"kubelet refreshes", "does not refresh"}},
		"long before":              {"v1.9.0", "v1.9.0", true, []string{fixed}, nil},
		"kubelet older":            {"v1.37.0", "v1.34.0", false, []string{kept, "too if it has the feature gate"}, []string{skewed}},
		"kubelet long before":      {"v1.35.0", "v1.32.0", false, []string{kept, "kubelet does not refresh it"}, []string{skewed}},
		"kubelet newer":            {"v1.34.0", "v1.36.1", false, []string{ifGated, refreshs, skewed}, nil},
		"a patch of kubelet newer": {"v1.36.1", "v1.36.7", false, []string{kept}, []string{skewed}},
		"as vendors have it":       {"v1.36.4-eks-3025e55", "v1.36.4-gke.1047000", false, []string{kept, refreshs}, []string{skewed}},
		"a build of one's own":     {"v1.37.0-alpha.1.12+0123456789abcd-dirty", "v1.37.2+k3s1", false, []string{kept}, []string{skewed}},
		"built without a version":  {"v0.0.0-master+$Format:%H$", "v1.37.0", false, []string{ifLet, refreshs}, []string{skewed}},
		"unreadable":               {"latest", "new", false, []string{ifLet, "is not known"}, []string{kept, skewed}},
		"not told":                 {"", "", false, []string{"API server of unknown version, kubelet of unknown version", ifLet, "is not known"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := support{apiServer: c.apiServer, kubelet: c.kubelet}
			if s.fixedCount() != c.fixed {
				t.Errorf("the count is fixed: %v", s.fixedCount())
			}
			for _, words := range c.says {
				if !strings.Contains(s.String(), words) {
					t.Errorf("%q is not in: %s", words, s)
				}
			}
			for _, words := range c.not {
				if strings.Contains(s.String(), words) {
					t.Errorf("%q is in: %s", words, s)
				}
			}
		})
	}
}

// withVersions makes a bench whose reporter looks at the versions.
func withVersions(o *Options) { o.ServerVersion = o.API.(Client).ServerVersion }

// It is said once when the process starts, and again when a version changes.
func TestRun_TellsWhatTheVersionsAllow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		server.setVersions("v1.34.1", "v1.34.1")
		b := startBench(t, server, withVersions)
		after(30 * time.Minute)
		if b.notices() != "CapacitySupport" {
			t.Errorf("notices %q", b.notices())
		}
		server.setVersions("v1.35.0", "v1.34.1")
		after(time.Hour)
		server.setVersions("v1.35.0", "v1.35.0")
		after(time.Minute)
		after(24 * time.Hour)
		if b.notices() != "CapacitySupport CapacitySupport CapacitySupport" {
			t.Errorf("after two upgrades: notices %q", b.notices())
		}
	})
}

// The API server is away when the process starts: that keeps nothing from being
// published, and the versions are known once it is back.
func TestRun_VersionsWhenTheServerIsAway(t *testing.T) {
	for name, c := range map[string]struct {
		err     error
		still   bool // for as long as the test lasts
		notices string
		most    int
	}{
		"no answer":  {err: context.DeadlineExceeded, notices: "CapacitySupport", most: 30},
		"broken":     {err: apierrors.NewInternalError(errors.New("etcd")), notices: "CapacitySupport", most: 30},
		"no rights":  {err: apierrors.NewForbidden(resourceOf(KindNode), "version", nil), still: true, notices: "CapacitySupport", most: 1},
		"no such":    {err: apierrors.NewNotFound(resourceOf(KindNode), "version"), still: true, notices: "CapacitySupport", most: 1},
		"never seen": {err: context.DeadlineExceeded, still: true, most: 30},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newFakeServer()
				asked, away := 0, true
				server.failWith(func(_, resource string) error {
					if resource != "version" {
						return nil
					}
					if asked++; away {
						return c.err
					}
					return nil
				}, nil)
				b := startBench(t, server, withVersions)
				after(10 * time.Minute)
				b.want("whatever the versions are", bothPools)
				server.mu.Lock()
				away = c.still
				server.mu.Unlock()
				after(2 * time.Minute)
				b.lvm(func(s *fakeSource) { s.volumes = 5 })
				after(time.Minute)
				if b.notices() != c.notices || server.count() != 5 {
					t.Errorf("notices %q, want %q; count %d", b.notices(), c.notices, server.count())
				}
				server.mu.Lock()
				defer server.mu.Unlock()
				if asked == 0 || asked > c.most {
					t.Errorf("asked %d times, want 1 to %d", asked, c.most)
				}
			})
		})
	}
}

// A count that cannot be changed is not tried, until the API server was upgraded.
func TestRun_CountOfAnOldServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		server.setVersions("v1.32.0", "v1.32.0")
		b := startBench(t, server, withVersions)
		after(time.Minute)
		b.lvm(func(s *fakeSource) { s.volumes = 5; s.pools["ssd"] = 1 })
		after(10 * time.Minute)
		b.want("the Node is written all the same", `{"hdd":"2000","ssd":"1"}`)
		if got := server.tried(KindCSINode); got != 0 {
			t.Errorf("%d tries", got)
		}
		server.setVersions("v1.35.0", "v1.32.0")
		after(time.Hour)
		if got := server.count(); got != 5 {
			t.Errorf("count %d after the upgrade", got)
		}
	})
}
