package capacity

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const (
	kib = int64(1) << 10
	mib = int64(1) << 20
	gib = int64(1) << 30
	tib = int64(1) << 40
)

func striped(n int) Shape { return Shape{Layout: LayoutStriped, Stripes: n} }
func raid1(n int) Shape   { return Shape{Layout: LayoutRAID1, Stripes: n} }

func TestVolumeSize(t *testing.T) {
	linear, thin := Shape{Layout: LayoutLinear}, Shape{Layout: LayoutThin}
	const ext4, xfs, btrfs, block = FilesystemExt4, FilesystemXFS, FilesystemBtrfs, FilesystemNone
	for name, c := range map[string]struct {
		shape           Shape
		fs              Filesystem
		required, limit int64
		extent          int64
		want            int64
		err             error
	}{
		// Windows (d2iq-archive/csilvm#101, intel/pmem-csi#399).
		"no extent in the window":       {linear, block, 5 * mib, 7 * mib, 4 * mib, 0, ErrOutOfRange},
		"one extent in the window":      {linear, block, 5 * mib, 8 * mib, 4 * mib, 8 * mib, nil},
		"exact":                         {linear, block, 8 * mib, 8 * mib, 4 * mib, 8 * mib, nil},
		"limit rounded down":            {linear, block, 0, 6 * mib, 4 * mib, 4 * mib, nil},
		"limit below one extent":        {linear, block, 0, 4*mib - 1, 4 * mib, 0, ErrOutOfRange},
		"limit of one byte":             {linear, block, 1, 1, 4 * mib, 0, ErrOutOfRange},
		"required above limit":          {linear, block, 8 * mib, 7 * mib, 4 * mib, 0, ErrInvalid},
		"rounded up":                    {linear, block, 4*mib + 1, 0, 4 * mib, 8 * mib, nil},
		"one byte":                      {linear, block, 1, 0, 4 * mib, 4 * mib, nil},
		"the zero shape is linear":      {Shape{}, block, 5 * mib, 8 * mib, 4 * mib, 8 * mib, nil},
		"thin, no extent in the window": {thin, block, 5 * mib, 7 * mib, 4 * mib, 0, ErrOutOfRange},
		"raid1, no extent":              {raid1(2), block, 5 * mib, 7 * mib, 4 * mib, 0, ErrOutOfRange},
		"raid1, one extent":             {raid1(2), block, 5 * mib, 8 * mib, 4 * mib, 8 * mib, nil},
		"raid1 counts what is seen":     {raid1(3), block, 4 * mib, 4 * mib, 4 * mib, 4 * mib, nil},
		"two stripes, no row":           {striped(2), block, 5 * mib, 7 * mib, 4 * mib, 0, ErrOutOfRange},
		"two stripes, one row":          {striped(2), block, 5 * mib, 8 * mib, 4 * mib, 8 * mib, nil},
		"two stripes, exact":            {striped(2), block, 8 * mib, 8 * mib, 4 * mib, 8 * mib, nil},
		"two stripes, limit only":       {striped(2), block, 0, 15 * mib, 4 * mib, 8 * mib, nil},
		"two stripes, limit too low":    {striped(2), block, 0, 6 * mib, 4 * mib, 0, ErrOutOfRange},
		"two stripes, one byte more":    {striped(2), block, 8*mib + 1, 0, 4 * mib, 16 * mib, nil},
		"three stripes":                 {striped(3), block, 100 * mib, 0, 4 * mib, 108 * mib, nil},

		// Defaults.
		"nothing asked":                  {linear, block, 0, 0, 4 * mib, gib, nil},
		"nothing asked, large limit":     {linear, block, 0, tib, 4 * mib, gib, nil},
		"nothing asked, three stripes":   {striped(3), block, 0, 0, 4 * mib, 1032 * mib, nil},
		"nothing asked, limit at 1 GiB":  {striped(3), block, 0, gib, 4 * mib, 1020 * mib, nil},
		"nothing asked, large extents":   {linear, block, 0, 0, 4 * gib, 4 * gib, nil},
		"nothing asked, 1 GiB too small": {linear, block, 0, gib, 4 * gib, 0, ErrOutOfRange},

		// Smallest file systems (metal-stack/csi-driver-lvm#129).
		"xfs rounded up":           {linear, xfs, 100 * mib, 0, 4 * mib, 300 * mib, nil},
		"xfs, limit too low":       {linear, xfs, 100 * mib, 100 * mib, 4 * mib, 0, ErrOutOfRange},
		"xfs, limit enough":        {linear, xfs, 100 * mib, 300 * mib, 4 * mib, 300 * mib, nil},
		"xfs, extent too coarse":   {linear, xfs, 100 * mib, 300 * mib, 32 * mib, 0, ErrOutOfRange},
		"xfs, 32 MiB extents":      {linear, xfs, 100 * mib, 0, 32 * mib, 320 * mib, nil},
		"xfs on stripes":           {striped(4), xfs, 1, 0, 32 * mib, 384 * mib, nil},
		"xfs, limit only, too low": {thin, xfs, 0, 6 * mib, 4 * mib, 0, ErrOutOfRange},
		"xfs larger anyway":        {linear, xfs, 2 * gib, 0, 4 * mib, 2 * gib, nil},
		"btrfs rounded up":         {linear, btrfs, 100 * mib, 0, 4 * mib, 112 * mib, nil},
		"btrfs, limit too low":     {linear, btrfs, 100 * mib, 100 * mib, 4 * mib, 0, ErrOutOfRange},
		"btrfs, limit a bit low":   {linear, btrfs, 100 * mib, 109 * mib, 4 * mib, 0, ErrOutOfRange},
		"ext4 4 MiB":               {linear, ext4, 4 * mib, 4 * mib, 4 * mib, 4 * mib, nil},
		"ext4, 1 MiB extents":      {linear, ext4, mib, 0, mib, 2 * mib, nil},
		"ext4, 1 MiB limit":        {linear, ext4, mib, mib, mib, 0, ErrOutOfRange},

		// Ends of the number range.
		"largest required":         {linear, block, math.MaxInt64, 0, 4 * mib, 0, ErrOutOfRange},
		"largest both":             {linear, block, math.MaxInt64, math.MaxInt64, 4 * mib, 0, ErrOutOfRange},
		"largest limit":            {linear, block, 1, math.MaxInt64, 4 * mib, 4 * mib, nil},
		"largest limit alone":      {linear, block, 0, math.MaxInt64, 4 * mib, gib, nil},
		"2^32-1 extents":           {linear, block, (1<<32 - 1) * 4 * mib, 0, 4 * mib, (1<<32 - 1) * 4 * mib, nil},
		"2^32 extents":             {linear, block, (1 << 32) * 4 * mib, 0, 4 * mib, 0, ErrOutOfRange},
		"huge extents":             {linear, block, 1, 0, math.MaxInt64, math.MaxInt64, nil},
		"huge extents on stripes":  {striped(2), block, 1, 0, math.MaxInt64, 0, ErrOutOfRange},
		"negative required":        {linear, block, -1, 0, 4 * mib, 0, ErrInvalid},
		"negative limit":           {linear, block, 1, -1, 4 * mib, 0, ErrInvalid},
		"least number":             {linear, block, math.MinInt64, math.MinInt64, 4 * mib, 0, ErrInvalid},
		"no extent size":           {linear, block, 1, 0, 0, 0, ErrInvalid},
		"negative extent size":     {linear, block, 1, 0, -4 * mib, 0, ErrInvalid},
		"stripe above extent size": {Shape{Layout: LayoutStriped, Stripes: 2, StripeSizeBytes: 8 * mib}, block, 1, 0, 4 * mib, 0, ErrInvalid},
		"stripe of an extent":      {Shape{Layout: LayoutStriped, Stripes: 2, StripeSizeBytes: 4 * mib}, block, 1, 0, 4 * mib, 8 * mib, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := VolumeSize(c.shape, c.fs, c.required, c.limit, c.extent)
			if got != c.want || !errors.Is(err, c.err) {
				t.Errorf("got %d, %v; want %d, %v", got, err, c.want, c.err)
			}
		})
	}
}

func TestVolumeSize_ErrorsHaveTheNumbers(t *testing.T) {
	for _, c := range []struct {
		fs              Filesystem
		required, limit int64
		want            string
	}{
		{FilesystemNone, 5 * mib, 7 * mib, "size out of range: required 5 MiB (5242880 bytes), limit 7 MiB (7340032 bytes): sizes are multiples of 4 MiB (4194304 bytes)"},
		{FilesystemXFS, 1, 8 * mib, "size out of range: required 1 bytes, limit 8 MiB (8388608 bytes): sizes are multiples of 4 MiB (4194304 bytes), and xfs needs at least 300 MiB (314572800 bytes)"},
		{FilesystemNone, 8, 7, "invalid size: required 8 bytes are more than the limit of 7 bytes"},
		{FilesystemNone, -1, 7, "invalid size: required -1 bytes, limit 7: negative"},
		{FilesystemNone, math.MaxInt64, 0, "size out of range: required 7.9 EiB (9223372036854775807 bytes): a volume has at most 15.9 PiB (18014398505287680 bytes)"},
	} {
		_, err := VolumeSize(Shape{}, c.fs, c.required, c.limit, 4*mib)
		if err == nil || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}

// The properties a size has to have, whatever was asked; and if it is refused,
// a search for any size that has them must fail too.
func TestVolumeSize_Properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := drawShape(t)
		fs := rapid.SampledFrom(append(Filesystems(), FilesystemNone)).Draw(t, "fs")
		extent := kib << rapid.IntRange(0, 25).Draw(t, "extent")
		required, limit := drawBytes(t, "required"), drawBytes(t, "limit")
		unit := extent
		if shape.Layout == LayoutStriped {
			unit *= int64(shape.Stripes)
		}
		fits := func(size int64) bool {
			return size > 0 && size >= required && (limit == 0 || size <= limit) && size%unit == 0 &&
				size >= fs.MinimumBytes() && size/extent <= math.MaxUint32
		}
		size, err := VolumeSize(shape, fs, required, limit, extent)
		if err == nil {
			if !fits(size) {
				t.Fatalf("size %d does not fit", size)
			}
			if least := max(required, fs.MinimumBytes()); least > 0 && required > 0 && size-unit >= least {
				t.Fatalf("size %d could be smaller by %d", size, unit)
			}
			return
		}
		if errors.Is(err, ErrInvalid) {
			if limit == 0 || required <= limit {
				t.Fatalf("refused: %v", err)
			}
			return
		}
		least := max(required, fs.MinimumBytes(), 1)
		if rest := least % unit; rest > 0 && least <= math.MaxInt64-unit {
			least += unit - rest
		}
		if fits(least) {
			t.Fatalf("%v, but %d fits", err, least)
		}
	})
}

// A size that was answered once is answered again: otherwise a repeated
// CreateVolume would find that its own volume does not fit.
func TestVolumeSize_IsStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := drawShape(t)
		fs := rapid.SampledFrom(append(Filesystems(), FilesystemNone)).Draw(t, "fs")
		extent := kib << rapid.IntRange(0, 25).Draw(t, "extent")
		size, err := VolumeSize(shape, fs, drawBytes(t, "required"), 0, extent)
		if err != nil {
			return
		}
		again, err := VolumeSize(shape, fs, size, size, extent)
		if err != nil || again != size {
			t.Fatalf("%d became %d, %v", size, again, err)
		}
	})
}

func drawShape(t *rapid.T) Shape {
	layout := rapid.SampledFrom([]Layout{"", LayoutLinear, LayoutThin, LayoutStriped, LayoutRAID1}).Draw(t, "layout")
	shape := Shape{Layout: layout}
	switch layout {
	case LayoutStriped:
		shape.Stripes = rapid.IntRange(2, MaxStripes).Draw(t, "stripes")
	case LayoutRAID1:
		shape.Stripes = rapid.IntRange(2, MaxCopies).Draw(t, "copies")
	}
	return shape
}

func drawBytes(t *rapid.T, name string) int64 {
	return rapid.OneOf(rapid.Int64Range(0, 4*gib), rapid.Int64Min(0), rapid.Int64Range(math.MaxInt64-64*mib, math.MaxInt64),
		rapid.Just(int64(0))).Draw(t, name)
}

// The smallest file systems, asked of the tools themselves.
func TestFilesystem_MinimumBytesIsWhatMkfsTakes(t *testing.T) {
	for _, c := range []struct {
		fs      Filesystem
		args    []string
		refusal string // what mkfs says one step below
	}{
		{FilesystemExt4, []string{"mkfs.ext4", "-F"}, "too small for a journal"},
		{FilesystemXFS, []string{"mkfs.xfs", "-f"}, "larger than 300MB"},
		{FilesystemBtrfs, []string{"mkfs.btrfs", "-f"}, "too small"},
	} {
		t.Run(string(c.fs), func(t *testing.T) {
			mkfs, err := exec.LookPath(c.args[0])
			if err != nil {
				mkfs = filepath.Join("/usr/sbin", c.args[0])
			}
			if _, err := os.Stat(mkfs); err != nil {
				t.Skipf("%s is not installed, so its smallest size cannot be asked", c.args[0])
			}
			if out := runMkfs(t, mkfs, c.args[1:], c.fs.MinimumBytes()); strings.Contains(out, c.refusal) {
				t.Errorf("%d bytes: %s", c.fs.MinimumBytes(), out)
			}
			const step = 64 << 10
			if out := runMkfs(t, mkfs, c.args[1:], c.fs.MinimumBytes()-step); !strings.Contains(out, c.refusal) {
				t.Errorf("%d bytes less are enough: %s", step, out)
			}
		})
	}
}

// runMkfs formats a sparse file and returns what mkfs said; a failure that is
// no refusal of the size fails the test by its text.
func runMkfs(t *testing.T, mkfs string, args []string, bytes int64) string {
	t.Helper()
	image := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, bytes); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), mkfs, append(args, image)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err != nil && !strings.Contains(strings.ToLower(string(out)), "too small") && !strings.Contains(string(out), "larger than") {
		t.Fatalf("%s: %v: %s", mkfs, err, out)
	}
	return string(out)
}
