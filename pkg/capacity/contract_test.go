package capacity

import (
	"strings"
	"testing"
)

// The wire contract: clusters already speak it, so these strings never change.
func TestContract_Names(t *testing.T) {
	for _, c := range []struct{ what, got, want string }{
		{"driver name", DefaultDriverName, "kubernetes.io.csi.local"},
		{"pools annotation", PoolsAnnotation(DefaultDriverName), "csi.volume.kubernetes.io/kubernetes.io.csi.local"},
		{"pools annotation of another driver", PoolsAnnotation("disk.example.com"), "csi.volume.kubernetes.io/disk.example.com"},
		{"report annotation", ReportAnnotation(DefaultDriverName), "kubernetes.io.csi.local/capacity-report"},
		{"topology key", TopologyKey(DefaultDriverName), "kubernetes.io.csi.local/node"},
		{"pool parameter", ParamPool, "pool"},
		{"filesystem parameter", ParamFilesystem, "csi.storage.k8s.io/fstype"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %q, want %q", c.what, c.got, c.want)
		}
	}
}

func TestValidatePoolName(t *testing.T) {
	for name, want := range map[string]bool{
		"pool-ssd": true, "a": true, "7": true, "A.b_c-d": true, strings.Repeat("a", 63): true,
		"": false, "-a": false, "a-": false, ".a": false, "a.": false, "_a": false, "a b": false, "a/b": false,
		"pä": false, "a\n": false, strings.Repeat("a", 64): false,
	} {
		if err := ValidatePoolName(name); (err == nil) != want {
			t.Errorf("%q: got %v, want valid = %v", name, err, want)
		}
	}
}

func TestWipePolicy_AtLeast(t *testing.T) {
	policies := WipePolicies()
	for i, a := range policies {
		for j, b := range policies {
			if got, want := a.AtLeast(b), i <= j; got != want {
				t.Errorf("%s.AtLeast(%s) = %v, want %v", a, b, got, want)
			}
		}
		if WipePolicy("none").AtLeast(a) {
			t.Errorf("a word that is no policy counts as strict as %s", a)
		}
	}
}

func TestClosestName(t *testing.T) {
	known := append(ClassParameterKeys(), ParamSize)
	for word, want := range map[string]string{
		"pol": "pool", "Pool": "pool", "POOL": "pool", "pools": "pool", "stripe-size": "stripeSize", "stripe": "stripes",
		"stripsize": "stripeSize", "fstype": "csi.storage.k8s.io/fstype", "fsType": "csi.storage.k8s.io/fstype", "mirror": "mirrors",
		"mkfsoption": "mkfsOptions", "wype": "wipe", "thin": "", "": "", "x": "", "encryption": "",
		strings.Repeat("pool", 10_000): "",
	} {
		if got := ClosestName(word, known); got != want {
			t.Errorf("%.20q: got %q, want %q", word, got, want)
		}
	}
	if got := ClosestName("pool", nil); got != "" {
		t.Errorf("nothing known: got %q", got)
	}
}
