package lvm

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestClient_Errors(t *testing.T) {
	lin, nosuch := Ref{"vgA", "lin"}, Ref{"vgA", "nosuch"}
	thin := func(name, pool string) CreateRequest {
		return CreateRequest{Ref: Ref{"vgA", name}, SegmentType: SegThin, ThinPool: pool, SizeBytes: mib}
	}
	striped := CreateRequest{Ref: Ref{"vgA", "new"}, SegmentType: SegStriped, Stripes: 3, SizeBytes: mib}
	create := func(req CreateRequest) func(context.Context, *Client) error {
		return func(ctx context.Context, c *Client) error { _, err := c.Create(ctx, req); return err }
	}
	tests := map[string]struct {
		replies map[string]reply
		call    func(context.Context, *Client) error
		want    error
	}{
		"no space": {
			map[string]reply{"lvcreate": refusal("words never heard")}, create(linear("new", 4096*mib)), ErrNoSpace,
		},
		"no space on distinct disks": {
			map[string]reply{"lvcreate": refusal("Insufficient suitable allocatable extents for logical volume new: 3 more required")},
			create(linear("new", mib)), ErrNoSpace,
		},
		"more stripes than disks": {map[string]reply{"lvcreate": refusal("words never heard")}, create(striped), ErrNoSpace},
		"exists":                  {map[string]reply{"lvcreate": refusal("words never heard")}, create(linear("lin", mib)), ErrExists},
		"no pool":                 {map[string]reply{"lvcreate": refusal("words never heard")}, create(thin("new", "nosuch")), ErrNotFound},
		"no thin pool":            {map[string]reply{"lvcreate": refusal("words never heard")}, create(thin("new", "lin")), ErrNotFound},
		"pool full": {
			map[string]reply{"lvcreate": refusal("Cannot create new thin volume, free space in thin pool vgA/tp reached threshold.")},
			create(thin("new", "tp")), ErrThinPoolFull,
		},
		"refused for reasons unknown": {map[string]reply{"lvcreate": refusal("words never heard")}, create(linear("new", mib)), ErrFailed},
		"command line refused":        {map[string]reply{"lvcreate": {ExitCode: 3}}, create(linear("new", mib)), ErrInvalid},
		"lvm dies":                    {map[string]reply{"lvcreate": {Die: true}}, create(linear("new", mib)), ErrUnavailable},
		"lvm babbles":                 {map[string]reply{"lvcreate": {Raw: "}{\n"}}, create(linear("new", mib)), ErrUnavailable},
		"lvm babbles afterwards": {
			map[string]reply{"lvcreate": {ExitCode: 5}, "fullreport": {ExitCode: 5}}, create(linear("new", mib)), ErrUnavailable,
		},
		"remove what is not there": {
			map[string]reply{"lvremove": {}}, func(ctx context.Context, c *Client) error { return c.Remove(ctx, nosuch) }, ErrNotFound,
		},
		"remove what is open": {
			map[string]reply{"lvremove": refusal("words never heard"), "fullreport": {Report: recorded(t, "open")}},
			func(ctx context.Context, c *Client) error { return c.Remove(ctx, Ref{"vgA", "str"}) }, ErrInUse,
		},
		"remove an origin": {
			map[string]reply{"lvremove": {}},
			func(ctx context.Context, c *Client) error { return c.Remove(ctx, Ref{"vgA", "org"}) }, ErrInUse,
		},
		"remove without effect": {
			map[string]reply{"lvremove": {}}, func(ctx context.Context, c *Client) error { return c.Remove(ctx, lin) }, ErrFailed,
		},
		"rename to a name that is taken": {
			map[string]reply{"lvrename": refusal("words never heard")},
			func(ctx context.Context, c *Client) error { return c.Rename(ctx, lin, "str") }, ErrExists,
		},
		"activate what is not there": {
			map[string]reply{"lvchange": refusal("words never heard")},
			func(ctx context.Context, c *Client) error { _, err := c.Activate(ctx, nosuch); return err }, ErrNotFound,
		},
		"another group": {
			nil, func(ctx context.Context, c *Client) error { return c.Remove(ctx, Ref{"vgB", "lin"}) }, ErrVolumeGroupMissing,
		},
		"a name that is an option": {
			nil, func(ctx context.Context, c *Client) error { return c.Remove(ctx, Ref{"vgA", "-ff"}) }, ErrInvalid,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nil)
			b.state(t)
			for command, r := range test.replies {
				b.on(command, r)
			}
			err := test.call(t.Context(), b.client)
			var known *Error
			if !errors.As(err, &known) || known.Kind != test.want {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

func TestClient_LVMDiesAfterItsEffect(t *testing.T) {
	b := newBed(t, nil)
	b.state(t)
	// In the fresh state lin and th exist and have these tags; so the effect took place.
	b.on("lvcreate", reply{Die: true})
	b.on("lvchange", reply{Die: true})
	b.on("fullreport", reply{Report: recorded(t, "mixed")})
	if err := b.client.ChangeTags(t.Context(), Ref{"vgA", "lin"}, []string{"csi-local/state=new"}, nil); err != nil {
		t.Errorf("tags that are there: %v", err)
	}
	if err := b.client.ChangeTags(t.Context(), Ref{"vgA", "lin"}, []string{"other"}, nil); !errors.Is(err, ErrUnavailable) {
		t.Errorf("tags that are not there: %v", err)
	}
}

// What lvm 2.03.16 says, word for word; each pattern is needed by one of them.
func TestClassify_LVMsOwnWords(t *testing.T) {
	sentences := map[string]error{
		`Logical Volume "two" already exists in volume group "vgA"`:                                        ErrExists,
		`Volume group "vgA" has insufficient free space (474 extents): 2500 required.`:                     ErrNoSpace,
		`Insufficient suitable allocatable extents for logical volume r3: 33 more required`:                ErrNoSpace,
		`Insufficient free space: 9975 extents needed, but only 878 available`:                             ErrNoSpace,
		`VG vgm 70 metadata on /dev/ubdb (523109 bytes) exceeds maximum metadata size (521472 bytes)`:      ErrNoSpace,
		`Maximum number of logical volumes (6) reached in volume group vgA`:                                ErrNoSpace,
		`Number of stripes (3) must not exceed number of physical volumes (2)`:                             ErrNoSpace,
		`Free space in pool vgB/full is above threshold, new volumes are not allowed.`:                     ErrThinPoolFull,
		`Cannot create new thin volume, free space in thin pool vgB/full reached threshold.`:               ErrThinPoolFull,
		`WARNING: Integrity check of metadata for pool vgB/full failed.`:                                   ErrThinPoolRepair,
		`Check of pool vgB/full failed (status:1). Manual repair required!`:                                ErrThinPoolRepair,
		`Thin pool vgB-full-tpool (253:3) transaction_id is 3, while expected 4.`:                          ErrThinPoolRepair,
		`WARNING: Thin pool vgB-full-tpool has unexpected transaction id 3, expecting 4.`:                  ErrThinPoolRepair,
		`Cannot use thin pool vgB/full with transaction id 3 for thin volumes. Expected transaction id 4.`: ErrThinPoolRepair,
		`Cannot change VG vgA while PVs are missing.`:                                                      ErrPhysicalVolumeMissing,
		`Refusing activation of partial LV vgA/str.  Use '--activationmode partial' to override.`:          ErrPhysicalVolumeMissing,
		`Logical volume vgA/org in use.`:                                                                   ErrInUse,
		`Logical volume vgA/org is used by another device.`:                                                ErrInUse,
		`Logical volume vgA/org contains a filesystem in use.`:                                             ErrInUse,
		`Snapshot origin volumes can be resized only while inactive: try lvchange -an.`:                    ErrInUse,
		`Failed to find logical volume "vgA/nosuch"`:                                                       ErrNotFound,
		`Internal error: Something that nobody has seen`:                                                   ErrFailed,
	}
	state := parsed(t, "mixed")
	needed := map[string]bool{}
	for sentence, want := range sentences {
		f := failure{
			ch: change{op: opExtend, ref: Ref{"vgA", "lin"}}, before: state, after: state,
			result: Result{ExitCode: 5, Log: []LogEntry{{Type: "error", Message: sentence}}},
		}
		if got := classify(f); got != want {
			t.Errorf("%q is %v, want %v", sentence, got, want)
		}
		for _, p := range patterns() {
			if strings.Contains(sentence, p.words) {
				needed[p.words] = true
			}
		}
	}
	for _, p := range patterns() {
		if !needed[p.words] {
			t.Errorf("no sentence has %q", p.words)
		}
	}
}

// Every sentinel is told apart from ErrFailed when it comes as the cause.
func TestKindOf(t *testing.T) {
	for _, kind := range []error{
		ErrNoSpace, ErrThinPoolFull, ErrThinPoolRepair, ErrThinDeviceMissing, ErrExists, ErrNotFound, ErrInUse, ErrVolumeGroupMissing,
		ErrVolumeGroupAmbiguous, ErrPhysicalVolumeMissing, ErrInvalid, ErrReport, ErrTimeout, ErrUnavailable,
	} {
		if got := kindOf(&Error{Kind: kind}); got != kind {
			t.Errorf("%v became %v", kind, got)
		}
	}
	if got := kindOf(errors.New("x")); got != ErrFailed {
		t.Errorf("got %v", got)
	}
}
