package blockdev

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// newFile makes a file of size bytes that has 0xA5 everywhere except, in large
// files, between 8 MiB and 4 MiB before the end, where it has a hole.
func newFile(t *testing.T, size int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "device")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	for _, r := range written(size) {
		if _, err := f.WriteAt(bytes.Repeat([]byte{0xA5}, int(r.length)), r.offset); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func written(size int64) []extent {
	if size <= 16*mib {
		return []extent{{0, size}}
	}
	return []extent{{0, 8 * mib}, {size - 4*mib, 4 * mib}}
}

// nonZero returns how many bytes of r are not zero.
func nonZero(t *testing.T, path string, r extent) int64 {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	content := make([]byte, r.length)
	if _, err := f.ReadAt(content, r.offset); err != nil {
		t.Fatal(err)
	}
	return r.length - int64(bytes.Count(content, []byte{0}))
}

func TestDevice_Check_SaysWhatIsThereInstead(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("not a device"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	dangling := filepath.Join(dir, "dangling")
	if err := os.Symlink(filepath.Join(dir, "nowhere"), dangling); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, path string
		want       error
		text       string
	}{
		{"missing", filepath.Join(dir, "missing"), fs.ErrNotExist, "missing"},
		{"dangling symlink", dangling, fs.ErrNotExist, "dangling"},
		{"regular file", file, ErrNotBlockDevice, "regular file"},
		{"symlink to a regular file", link, ErrNotBlockDevice, "regular file"},
		{"directory", dir, ErrNotBlockDevice, "directory"},
		{"character device", "/dev/null", ErrNotBlockDevice, "character device"},
		{"named pipe", pipe, ErrNotBlockDevice, "named pipe"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := Device{}.Check(tc.path, 1, 3)
			if !errors.Is(err, tc.want) || !bytes.Contains([]byte(err.Error()), []byte(tc.text)) {
				t.Errorf("Check() = %v, want %v with %q", err, tc.want, tc.text)
			}
		})
	}
}

func TestDevice_RefusesWhatIsNoBlockDevice(t *testing.T) {
	file := newFile(t, mib)
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(t.TempDir(), "missing")
	for _, tc := range []struct {
		name   string
		device Device
		path   string
		want   error
	}{
		{"regular file", Device{}, file, ErrNotBlockDevice},
		{"pipe", Device{RegularFiles: true}, pipe, ErrNotBlockDevice},
		{"missing", Device{RegularFiles: true}, missing, fs.ErrNotExist},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, sizeErr := tc.device.SizeBytes(tc.path)
			got := map[string]error{
				"SizeBytes": sizeErr,
				"ReadEnds":  tc.device.ReadEnds(t.Context(), tc.path),
				"ClearEnds": tc.device.ClearEnds(t.Context(), tc.path),
				"Zero":      tc.device.Zero(t.Context(), tc.path, true, nil),
			}
			for method, err := range got {
				if !errors.Is(err, tc.want) {
					t.Errorf("%s() = %v, want %v", method, err, tc.want)
				}
			}
		})
	}
	if n := nonZero(t, file, extent{0, mib}); n != mib {
		t.Errorf("%d bytes of the refused file were overwritten", mib-n)
	}
	if _, err := os.Lstat(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing device was made as a file: %v", err)
	}
}

func TestDevice_ReadEnds(t *testing.T) {
	for _, size := range []int64{0, 512, 4096, mib, mib + 512, 2 * mib, 3*mib + 1536, 100 * mib} {
		path := newFile(t, size)
		if err := (Device{RegularFiles: true}).ReadEnds(t.Context(), path); err != nil {
			t.Errorf("size %d: %v", size, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (Device{RegularFiles: true}).ReadEnds(ended, newFile(t, mib)); !errors.Is(err, context.Canceled) {
		t.Errorf("ReadEnds with an ended context = %v", err)
	}
}

func TestDevice_ClearEnds_ClearsTheEndsAndNothingElse(t *testing.T) {
	for _, size := range []int64{0, 512, 4 * mib, 6 * mib, 7 * mib, 8*mib + 512, 100 * mib} {
		path := newFile(t, size)
		if err := (Device{RegularFiles: true}).ClearEnds(t.Context(), path); err != nil {
			t.Fatalf("size %d: %v", size, err)
		}
		kept := int64(0)
		for _, r := range written(size) {
			kept += nonZero(t, path, r)
		}
		want := max(0, min(size, 16*mib)-7*mib)
		if size > 16*mib {
			want = 5 * mib // of the 8 MiB and 4 MiB written
		}
		if kept != want {
			t.Errorf("size %d: %d bytes kept, want %d", size, kept, want)
		}
		if n := nonZero(t, path, extent{0, min(size, clearStartBytes)}); n != 0 {
			t.Errorf("size %d: %d bytes left at the start", size, n)
		}
		if n := nonZero(t, path, extent{max(0, size-clearEndBytes), min(size, clearEndBytes)}); n != 0 {
			t.Errorf("size %d: %d bytes left at the end", size, n)
		}
	}
}

func TestSignaturePlaces(t *testing.T) {
	const gib = 1 << 10 * mib
	for _, tc := range []struct {
		size int64
		want []extent
	}{
		{0, []extent{{0, 0}}},
		{4096, []extent{{0, 4096}}},
		{6 * mib, []extent{{0, 5 * mib}, {5 * mib, mib}}},
		{64 * mib, []extent{{0, 5 * mib}, {62 * mib, 2 * mib}}},
		{70 * mib, []extent{{0, 5 * mib}, {64 * mib, 4096}, {68 * mib, 2 * mib}}},
		{300 * gib, []extent{{0, 5 * mib}, {64 * mib, 4096}, {256 * gib, 4096}, {300*gib - 2*mib, 2 * mib}}},
	} {
		if diff := cmp.Diff(tc.want, signaturePlaces(tc.size), cmp.AllowUnexported(extent{})); diff != "" {
			t.Errorf("size %d: -want +got\n%s", tc.size, diff)
		}
	}
}

func TestSignaturePlaces_StayInTheDeviceAndDoNotOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(1, 1<<50).Draw(t, "size")
		free := int64(0)
		for _, p := range signaturePlaces(size) {
			if p.length <= 0 || p.offset < free || p.offset+p.length > size {
				t.Fatalf("place %+v of a device of %d bytes, after %d", p, size, free)
			}
			free = p.offset + p.length
		}
		if free != size {
			t.Fatalf("the last place of a device of %d bytes ends at %d", size, free)
		}
	})
}

func TestDevice_Zero_LeavesNothingAndKeepsTheSize(t *testing.T) {
	for _, discard := range []bool{false, true} {
		for _, size := range []int64{0, 512, 3*mib + 512, zeroChunkBytes, 2*zeroChunkBytes + mib} {
			path := newFile(t, size)
			var reported []int64
			err := Device{RegularFiles: true}.Zero(t.Context(), path, discard, func(done int64) { reported = append(reported, done) })
			if err != nil {
				t.Fatalf("size %d: %v", size, err)
			}
			if got, err := (Device{RegularFiles: true}).SizeBytes(path); err != nil || got != size {
				t.Errorf("size %d became %d (%v)", size, got, err)
			}
			for _, r := range written(size) {
				if n := nonZero(t, path, r); n != 0 {
					t.Errorf("size %d: %d bytes left in %+v", size, n, r)
				}
			}
			if len(reported) == 0 || reported[len(reported)-1] != size {
				t.Errorf("size %d: progress %v does not end with the size", size, reported)
			}
		}
	}
}

func TestDevice_Zero_StopsWithItsContext(t *testing.T) {
	path := newFile(t, mib)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := Device{RegularFiles: true}.Zero(ctx, path, false, func(int64) { t.Error("progress after the end") })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Zero() = %v", err)
	}
	if n := nonZero(t, path, extent{0, mib}); n != mib {
		t.Errorf("%d bytes were zeroed", mib-n)
	}
}

func TestZeroer_TakesTheNextWayWhenOneIsNotSupported(t *testing.T) {
	const unknown = 1 << 30
	path := newFile(t, 2*mib+512)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z := zeroer{file: f, modes: []uint32{unknown, unknown | unix.FALLOC_FL_ZERO_RANGE}}
	if err := z.zero(extent{512, 2 * mib}); err != nil {
		t.Fatal(err)
	}
	if n := nonZero(t, path, extent{0, 2*mib + 512}); n != 512 {
		t.Errorf("%d bytes left, want the 512 outside the piece", n)
	}
	if len(z.modes) != 0 {
		t.Errorf("modes %v are tried again", z.modes)
	}
}

func TestDevice_OpenCount_WithoutDeviceMapper(t *testing.T) {
	d := Device{ControlPath: filepath.Join(t.TempDir(), "control")}
	if _, err := d.OpenCount(253, 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("OpenCount() without a control node = %v", err)
	}
	notDM := Device{ControlPath: "/dev/null"}
	if _, err := notDM.OpenCount(253, 0); err == nil || errors.Is(err, ErrNoDevice) {
		t.Errorf("OpenCount() through another device = %v, want an error that is not ErrNoDevice", err)
	}
}
