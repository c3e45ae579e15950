package capacity

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseClassParameters(t *testing.T) {
	for name, c := range map[string]struct {
		in   map[string]string
		want ClassParameters
	}{
		"pool only": {map[string]string{"pool": "pool-ssd"}, ClassParameters{Pool: "pool-ssd"}},
		"linear": {map[string]string{"pool": "p", "layout": "linear"},
			ClassParameters{Pool: "p", Shape: Shape{Layout: LayoutLinear}}},
		"striped": {map[string]string{"pool": "p", "layout": "striped"},
			ClassParameters{Pool: "p", Shape: Shape{Layout: LayoutStriped, Stripes: 2}}},
		"striped with numbers": {map[string]string{"pool": "p", "layout": "striped", "stripes": "4", "stripeSize": "256Ki"},
			ClassParameters{Pool: "p", Shape: Shape{Layout: LayoutStriped, Stripes: 4, StripeSizeBytes: 256 << 10}}},
		"raid1":              {map[string]string{"pool": "p", "layout": "raid1"}, ClassParameters{Pool: "p", Shape: Shape{Layout: LayoutRAID1, Stripes: 2}}},
		"raid1, three disks": {map[string]string{"pool": "p", "layout": "raid1", "mirrors": "3"}, ClassParameters{Pool: "p", Shape: Shape{Layout: LayoutRAID1, Stripes: 3}}},
		"the rest": {map[string]string{"pool": "p", "csi.storage.k8s.io/fstype": "xfs", "mkfsOptions": " -m  reflink=1 -n size=8192 ", "wipe": "discard"},
			ClassParameters{Pool: "p", Filesystem: FilesystemXFS, MkfsOptions: []string{"-m", "reflink=1", "-n", "size=8192"}, Wipe: WipeDiscard}},
		"sidecars' keys": {map[string]string{"pool": "p", "csi.storage.k8s.io/x": "y", "csi.storage.k8s.io/pvc/name": "data",
			"csi.storage.k8s.io/provisioner-secret-name": ""}, ClassParameters{Pool: "p"}},
		"empty words": {map[string]string{"pool": "p", "csi.storage.k8s.io/fstype": "", "mkfsOptions": " "}, ClassParameters{Pool: "p"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseClassParameters(c.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A misspelt or contradictory parameter that is ignored gives the user another
// kind of volume (openebs/lvm-localpv#108, longhorn/longhorn#13792).
func TestParseClassParameters_NamesEveryProblem(t *testing.T) {
	for name, c := range map[string]struct {
		in   map[string]string // pool: p is added unless there is a key with that meaning
		want []string
	}{
		"no pool":      {map[string]string{"!": ""}, []string{`parameter "pool": is missing; want the name of a pool`}},
		"misspelt key": {map[string]string{"pol": "p", "!": ""}, []string{`parameter "pool": is missing; want the name of a pool`, `parameter "pol": unknown parameter; want pool`}},
		"other case":   {map[string]string{"Pool": "p", "!": ""}, []string{`parameter "pool": is missing; want the name of a pool`, `parameter "Pool": unknown parameter; want pool`}},
		"other's key":  {map[string]string{"thin": "true"}, []string{`parameter "thin": unknown parameter; want one of csi.storage.k8s.io/fstype, layout, mirrors, mkfsOptions, pool, stripeSize, stripes, wipe`}},
		"old key":      {map[string]string{"fstype": "xfs"}, []string{`parameter "fstype": unknown parameter; want csi.storage.k8s.io/fstype`}},
		"size":         {map[string]string{"size": "1Gi"}, []string{`parameter "size": is for inline volumes only; want the size in the claim`}},
		"empty pool":   {map[string]string{"pool": ""}, []string{`parameter "pool": pool name is empty; want the name of a pool`}},
		"pool":         {map[string]string{"pool": "a/b"}, []string{`parameter "pool" = "a/b": pool name "a/b": letters, digits, '-', '_' and '.' are allowed, first and last a letter or digit; want the name of a pool`}},
		"layout":       {map[string]string{"layout": "stripe"}, []string{`parameter "layout" = "stripe": is not known; want striped (one of linear, striped, raid1)`}},
		"thin layout":  {map[string]string{"layout": "thin"}, []string{`parameter "layout" = "thin": is not known; want one of linear, striped, raid1`}},
		"empty layout": {map[string]string{"layout": ""}, []string{`parameter "layout": is not known; want one of linear, striped, raid1`}},
		"stripes without layout": {map[string]string{"stripes": "2"},
			[]string{`parameter "stripes" = "2": has no meaning without layout: striped; want layout: striped, or no stripes`}},
		"linear with everything": {map[string]string{"layout": "linear", "stripes": "2", "stripeSize": "64Ki", "mirrors": "2"}, []string{
			`parameter "mirrors" = "2": has no meaning without layout: raid1; want layout: raid1, or no mirrors`,
			`parameter "stripes" = "2": has no meaning without layout: striped; want layout: striped, or no stripes`,
			`parameter "stripeSize" = "64Ki": has no meaning without layout: striped; want layout: striped, or no stripeSize`}},
		"striped with mirrors": {map[string]string{"layout": "striped", "mirrors": "2"},
			[]string{`parameter "mirrors" = "2": has no meaning without layout: raid1; want layout: raid1, or no mirrors`}},
		"raid1 with stripes": {map[string]string{"layout": "raid1", "stripes": "2"},
			[]string{`parameter "stripes" = "2": has no meaning without layout: striped; want layout: striped, or no stripes`}},
		"one stripe":       {map[string]string{"layout": "striped", "stripes": "1"}, []string{`parameter "stripes" = "1": is not a number of disks; want a whole number from 2 to 128`}},
		"too many stripes": {map[string]string{"layout": "striped", "stripes": "129"}, []string{`parameter "stripes" = "129": is not a number of disks; want a whole number from 2 to 128`}},
		"stripes +2":       {map[string]string{"layout": "striped", "stripes": "+2"}, []string{`parameter "stripes" = "+2": is not a number of disks; want a whole number from 2 to 128`}},
		"one mirror":       {map[string]string{"layout": "raid1", "mirrors": "1"}, []string{`parameter "mirrors" = "1": is not a number of disks; want a whole number from 2 to 8`}},
		"stripe size":      {map[string]string{"layout": "striped", "stripeSize": "96Ki"}, []string{`parameter "stripeSize" = "96Ki": is not a stripe size; want a power of two from 4Ki to 1Gi, such as 64Ki`}},
		"small stripe":     {map[string]string{"layout": "striped", "stripeSize": "2Ki"}, []string{`parameter "stripeSize" = "2Ki": is not a stripe size; want a power of two from 4Ki to 1Gi, such as 64Ki`}},
		"no stripe size":   {map[string]string{"layout": "striped", "stripeSize": "big"}, []string{`parameter "stripeSize" = "big": is not a stripe size; want a power of two from 4Ki to 1Gi, such as 64Ki`}},
		"filesystem":       {map[string]string{"csi.storage.k8s.io/fstype": "ext3"}, []string{`parameter "csi.storage.k8s.io/fstype" = "ext3": is not known; want ext4 (one of ext4, xfs, btrfs)`}},
		"mkfs device":      {map[string]string{"mkfsOptions": "/dev/sda"}, []string{`parameter "mkfsOptions" = "/dev/sda": does not begin with an option; want arguments of mkfs, separated by spaces, such as -m 0`}},
		"mkfs control":     {map[string]string{"mkfsOptions": "-m\n0"}, []string{`parameter "mkfsOptions" = "-m\n0": has control characters; want arguments of mkfs, separated by spaces, such as -m 0`}},
		"wipe":             {map[string]string{"wipe": "none"}, []string{`parameter "wipe" = "none": is not known; want one of zero, discard, unsafe-none`}},
		"all at once": {map[string]string{"pool": "a b", "wipe": "x", "layout": "raid1", "mirrors": "0", "poool": ""}, []string{
			`parameter "pool" = "a b": pool name "a b": letters, digits, '-', '_' and '.' are allowed, first and last a letter or digit; want the name of a pool`,
			`parameter "mirrors" = "0": is not a number of disks; want a whole number from 2 to 8`,
			`parameter "wipe" = "x": is not known; want one of zero, discard, unsafe-none`,
			`parameter "poool": unknown parameter; want pool`}},
	} {
		t.Run(name, func(t *testing.T) {
			in := maps.Clone(c.in)
			if _, ok := in["!"]; ok {
				delete(in, "!")
			} else if _, ok := in["pool"]; !ok {
				in["pool"] = "p"
			}
			got, err := ParseClassParameters(in)
			if err == nil {
				t.Fatalf("got %+v, want an error", got)
			}
			if diff := cmp.Diff(strings.Join(c.want, "\n"), err.Error()); diff != "" {
				t.Error(diff)
			}
			var problem *ParameterError
			if !errors.As(err, &problem) {
				t.Errorf("%T is no *ParameterError", err)
			}
			if diff := cmp.Diff(ClassParameters{}, got); diff != "" {
				t.Error("parameters beside an error: ", diff)
			}
		})
	}
}

func TestClassParameters_Validate(t *testing.T) {
	for name, c := range map[string]struct {
		parameters ClassParameters
		pool       PoolType
		poolWipe   WipePolicy
		want       string // part of the message, "" for none
	}{
		"thick":               {ClassParameters{Pool: "p"}, PoolThick, WipeZero, ""},
		"thick, striped":      {ClassParameters{Pool: "p", Shape: Shape{Layout: LayoutStriped, Stripes: 2}}, PoolThick, WipeZero, ""},
		"thin":                {ClassParameters{Pool: "p"}, PoolThin, WipeZero, ""},
		"thin, linear":        {ClassParameters{Pool: "p", Shape: Shape{Layout: LayoutLinear}}, PoolThin, WipeZero, `"layout" = "linear": pool p is thin`},
		"thin, raid1":         {ClassParameters{Pool: "p", Shape: Shape{Layout: LayoutRAID1, Stripes: 2}}, PoolThin, WipeZero, `"layout" = "raid1": pool p is thin`},
		"stricter":            {ClassParameters{Pool: "p", Wipe: WipeZero}, PoolThick, WipeUnsafeNone, ""},
		"equal":               {ClassParameters{Pool: "p", Wipe: WipeDiscard}, PoolThick, WipeDiscard, ""},
		"laxer":               {ClassParameters{Pool: "p", Wipe: WipeUnsafeNone}, PoolThick, WipeZero, `"wipe" = "unsafe-none": is less strict than the policy of pool p, which is zero`},
		"pool's wipe unknown": {ClassParameters{Pool: "p", Wipe: WipeUnsafeNone}, PoolThick, "", ""},
		"both": {ClassParameters{Pool: "p", Shape: Shape{Layout: LayoutLinear}, Wipe: WipeDiscard}, PoolThin, WipeZero,
			"want no layout, or a thick pool\nparameter \"wipe\""},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.parameters.Validate(c.pool, c.poolWipe)
			if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestClassParameters_Defaults(t *testing.T) {
	plain := ClassParameters{Pool: "p"}
	striped := ClassParameters{Pool: "p", Shape: Shape{Layout: LayoutStriped, Stripes: 3}, Wipe: WipeZero}
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"plain in thick", plain.ShapeIn(PoolThick), Shape{Layout: LayoutLinear}},
		{"plain in thin", plain.ShapeIn(PoolThin), Shape{Layout: LayoutThin}},
		{"striped in thick", striped.ShapeIn(PoolThick), striped.Shape},
		{"wipe of the pool", plain.WipeIn(WipeDiscard), WipeDiscard},
		{"stricter wipe", striped.WipeIn(WipeUnsafeNone), WipeZero},
		{"laxer wipe", ClassParameters{Wipe: WipeUnsafeNone}.WipeIn(WipeZero), WipeZero},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s: %s", c.what, diff)
		}
	}
}

func TestParseInlineParameters(t *testing.T) {
	const tenGi = 10 << 30
	for name, c := range map[string]struct {
		in   map[string]string
		max  int64
		want int64
		text string // part of the message, "" for none
	}{
		"size":             {map[string]string{"pool": "p", "size": "1Gi"}, tenGi, 1 << 30, ""},
		"plain bytes":      {map[string]string{"pool": "p", "size": "1500000"}, tenGi, 1500000, ""},
		"fraction":         {map[string]string{"pool": "p", "size": "1.5Gi"}, tenGi, 3 << 29, ""},
		"at the bound":     {map[string]string{"pool": "p", "size": "10Gi"}, tenGi, tenGi, ""},
		"bound not known":  {map[string]string{"pool": "p", "size": "1Ti"}, -1, 1 << 40, ""},
		"kubelet's keys":   {map[string]string{"pool": "p", "size": "1Gi", "csi.storage.k8s.io/ephemeral": "true", "csi.storage.k8s.io/pod.uid": "u"}, tenGi, 1 << 30, ""},
		"above the bound":  {map[string]string{"pool": "p", "size": "10737418241"}, tenGi, 0, `"size" = "10737418241": is more than the pool allows for one inline volume; want at most 10 GiB (10737418240 bytes)`},
		"no inline":        {map[string]string{"pool": "p", "size": "1Gi"}, 0, 0, `the pool takes no inline volumes`},
		"no size":          {map[string]string{"pool": "p"}, tenGi, 0, `"size": is missing`},
		"no pool":          {map[string]string{"size": "1Gi"}, tenGi, 0, `"pool": is missing`},
		"empty size":       {map[string]string{"pool": "p", "size": ""}, tenGi, 0, `want a quantity such as 10Gi`},
		"zero":             {map[string]string{"pool": "p", "size": "0"}, tenGi, 0, `is zero`},
		"negative":         {map[string]string{"pool": "p", "size": "-1Gi"}, tenGi, 0, `is negative`},
		"word":             {map[string]string{"pool": "p", "size": "big"}, tenGi, 0, `is not a quantity`},
		"overflow":         {map[string]string{"pool": "p", "size": "9223372036854775808"}, -1, 0, `is more than a 64-bit number`},
		"overflow, Ei":     {map[string]string{"pool": "p", "size": "8Ei"}, -1, 0, `is more than a 64-bit number`},
		"huge exponent":    {map[string]string{"pool": "p", "size": "1e999999999"}, -1, 0, `"size"`},
		"million digits":   {map[string]string{"pool": "p", "size": strings.Repeat("9", 1_000_000)}, -1, 0, `has more than 64 characters`},
		"misspelt":         {map[string]string{"pool": "p", "siz": "1Gi"}, tenGi, 0, `"siz": unknown parameter; want size`},
		"mkfs by a tenant": {map[string]string{"pool": "p", "size": "1Gi", "mkfsOptions": "-d /etc"}, tenGi, 0, `"mkfsOptions" = "-d /etc": is not allowed in an inline volume`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseInlineParameters(c.in, c.max)
			if (err == nil) != (c.text == "") || (err != nil && !strings.Contains(err.Error(), c.text)) {
				t.Fatalf("got %v, want %q", err, c.text)
			}
			if err != nil && len(c.in) == 3 && strings.Count(err.Error(), "\n") > 0 {
				t.Errorf("one problem is told more than once: %v", err)
			}
			if got.SizeBytes != c.want {
				t.Errorf("got %d bytes, want %d", got.SizeBytes, c.want)
			}
		})
	}
}

func FuzzParseParameters(f *testing.F) {
	f.Add("pool", "pool-ssd", "layout", "striped", "stripes", "2", "size", "1Gi")
	f.Add("pool", "p", "mkfsOptions", "-m 0", "wipe", "zero", "csi.storage.k8s.io/fstype", "xfs")
	f.Add("pol", "", "stripeSize", "1e3", "mirrors", "\xff", "size", "-0.1n")
	f.Fuzz(func(t *testing.T, k1, v1, k2, v2, k3, v3, k4, v4 string) {
		in := map[string]string{k1: v1, k2: v2, k3: v3, k4: v4}
		class, err := ParseClassParameters(in)
		checkParsed(t, class, err)
		inline, err := ParseInlineParameters(in, 1<<40)
		checkParsed(t, inline.ClassParameters, err)
		if err == nil && (inline.SizeBytes <= 0 || inline.SizeBytes > 1<<40 || inline.MkfsOptions != nil) {
			t.Fatalf("inline volume %+v", inline)
		}
	})
}

func checkParsed(t *testing.T, p ClassParameters, err error) {
	t.Helper()
	if err != nil {
		var problem *ParameterError
		if !errors.As(err, &problem) || !strings.Contains(err.Error(), "parameter ") {
			t.Fatalf("error %v", err)
		}
		return
	}
	if p.Pool == "" {
		t.Fatal("no pool and no error")
	}
	const extent = 4 << 20
	size, err := VolumeSize(p.Shape, p.Filesystem, 1, 0, max(extent, p.Shape.StripeSizeBytes))
	if err != nil || size <= 0 {
		t.Fatalf("%+v: size %d, %v", p, size, err)
	}
}
