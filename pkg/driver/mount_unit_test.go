package driver

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The parser must find the fields whatever number of optional ones there is
// (topolvm/topolvm#350), and undo the kernel's escapes.
func TestMountTable_Parse(t *testing.T) {
	const text = `36 35 253:3 / /mnt/none rw,noatime - ext4 /dev/mapper/vgA-vol1 rw,errors=remount-ro
37 35 253:4 / /mnt/one rw shared:5 - xfs /dev/mapper/vgA-vol2 rw
38 35 253:5 /sub /mnt/three ro,nosuid shared:5 master:2 propagate_from:1 - ext4 /dev/dm-5 ro
39 35 0:22 / /mnt/with\040space\134\011 rw - tmpfs none rw
40 35 0:5 /nonexistent /no/such/file rw - devtmpfs udev rw
41 35 0:44 / /mnt/btrfs rw - btrfs /dev/mapper/vgA-vol-3 rw
42 35 0:45 / /mnt/btrfs2 rw - btrfs /dev/dm-9 rw
43 35 0:46 / /mnt/btrfs3 rw - btrfs /dev/gone rw
44 35 0:47 / /mnt/btrfs4 rw - btrfs /dev/vg-b/vol-4 rw
`
	sys := t.TempDir()
	for file, content := range map[string]string{
		"class/block/dm-6/dev": "253:6\n", "class/block/dm-6/dm/name": "vgA-vol-3\n", "class/block/dm-9/dev": "253:9\n",
		"class/block/dm-7/dev": "253:7\n", "class/block/dm-7/dm/name": "vg--b-vol--4\n",
	} {
		path := filepath.Join(sys, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	mounts, err := parseMountTable([]byte(text), sys)
	if err != nil {
		t.Fatal(err)
	}
	type line struct {
		Path, Root, FSType string
		Device             DeviceNumber
		ReadOnly           bool
	}
	var got []line
	for _, m := range mounts {
		got = append(got, line{m.Path, m.Root, m.FSType, m.Device, m.ReadOnly()})
	}
	want := []line{
		{"/mnt/none", "/", "ext4", DeviceNumber{253, 3}, false},
		{"/mnt/one", "/", "xfs", DeviceNumber{253, 4}, false},
		{"/mnt/three", "/sub", "ext4", DeviceNumber{253, 5}, true},
		{"/mnt/with space\\\t", "/", "tmpfs", noDevice(), false},
		{"/no/such/file", "/nonexistent", "devtmpfs", noDevice(), false},
		{"/mnt/btrfs", "/", "btrfs", DeviceNumber{253, 6}, false},
		{"/mnt/btrfs2", "/", "btrfs", DeviceNumber{253, 9}, false},
		{"/mnt/btrfs3", "/", "btrfs", noDevice(), false},
		{"/mnt/btrfs4", "/", "btrfs", DeviceNumber{253, 7}, false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestMountTable_ReadsThisProcess(t *testing.T) {
	mounts, err := NewMounter().Mounts()
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := mountTable(mounts).at("/proc"); !ok {
		t.Errorf("no /proc among %d mounts", len(mounts))
	}
}

func TestMountTable_UppermostCounts(t *testing.T) {
	table := mountTable{{Path: "/a", Source: "below"}, {Path: "/b"}, {Path: "/a", Source: "above"}}
	if m, ok := table.at("/a"); !ok || m.Source != "above" {
		t.Errorf("got %+v", m)
	}
	if _, ok := table.at("/c"); ok {
		t.Error("found what is not there")
	}
	if got := table.of(noDevice()); got != nil {
		t.Errorf("mounts of no device: %+v", got)
	}
}

func TestMountOptions_Parse(t *testing.T) {
	for _, c := range []struct {
		name  string
		flags []string
		want  mountOptions
		err   error
	}{
		{"none", nil, nil, nil},
		{"list in one flag", []string{"noatime,nodev", " discard "}, mountOptions{"noatime", "nodev", "discard"}, nil},
		{"defaults, empty and repeated", []string{"defaults", "", "noatime", "noatime,,"}, mountOptions{"noatime"}, nil},
		{"contradiction", []string{"ro", "rw"}, nil, errInvalid},
		{"bind", []string{"noatime,rbind"}, nil, errInvalid},
		{"loop", []string{"loop=/dev/loop0"}, nil, errInvalid},
		{"X-mount", []string{"X-mount.mkdir=0777"}, nil, errInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parseMountOptions(c.flags)
			if !errors.Is(err, c.err) {
				t.Errorf("error %v, want %v", err, c.err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMountOptions_Conflict(t *testing.T) {
	shown := Mount{Options: []string{"rw", "noatime"}, SuperOptions: []string{"rw", "data=ordered", "discard"}}
	for _, c := range []struct {
		name    string
		options mountOptions
		want    string
	}{
		{"same", mountOptions{"noatime"}, ""},
		{"with options of the file system", mountOptions{"noatime", "data=ordered", "discard"}, ""},
		{"what is not shown cannot be told", mountOptions{"noatime", "commit=5"}, ""},
		{"missing", nil, "noatime"},
		{"more", mountOptions{"noatime", "nodev"}, "nodev"},
		{"read-only", mountOptions{"noatime", "ro"}, "ro"},
		{"other value", mountOptions{"noatime", "data=journal"}, "data=journal"},
		{"opposite", mountOptions{"noatime", "nodiscard"}, "nodiscard"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.options.conflict(shown); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestMkfsOptions(t *testing.T) {
	for _, c := range []struct {
		name, fsType, text string
		ok                 bool
	}{
		{"none", "ext4", "", true},
		{"ext4", "ext4", "-O ^has_journal -E lazy_itable_init=0,nodiscard -b4096 -m 1", true},
		{"xfs", "xfs", "-m reflink=1,crc=1 -i size=512 -K -d agcount=4", true},
		{"btrfs", "btrfs", "--csum=xxhash -m single --nodesize 16k", true},
		{"copies a folder of the host", "ext4", "-d /etc", false},
		{"copies a folder, glued", "ext4", "-d/etc", false},
		{"force", "xfs", "-f", false},
		{"journal elsewhere", "ext4", "-J device=/dev/sda", false},
		{"offset", "ext4", "-E nodiscard,offset=1048576", false},
		{"log elsewhere", "xfs", "-l logdev=/dev/sda", false},
		{"file", "xfs", "-d file,name=/etc/passwd", false},
		{"prototype", "xfs", "-p /etc/passwd", false},
		{"root folder", "btrfs", "--rootdir /etc", false},
		{"another device", "ext4", "/dev/sda", false},
		{"value missing", "ext4", "-b", false},
		{"option as a value", "ext4", "-b -F", false},
		{"unknown type", "zfs", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parseMkfsOptions(c.fsType, c.text)
			if (err == nil) != c.ok || err != nil && !errors.Is(err, errInvalid) {
				t.Errorf("error %v, want ok %v", err, c.ok)
			}
		})
	}
}

// The programs that format are installed wherever this is developed; their own
// superblocks are the best samples.
func TestSuperblock_OfRealFilesystems(t *testing.T) {
	for _, fsType := range []string{"ext4", "xfs", "btrfs"} {
		t.Run(fsType, func(t *testing.T) {
			program, args := mkfsCommand(filepath.Join(t.TempDir(), "disk"), fsType, nil)
			if _, err := exec.LookPath(program); err != nil {
				t.Skip(program + " is not installed") // apt-get install e2fsprogs xfsprogs btrfs-progs
			}
			const size = 512 << 20
			path := args[len(args)-1]
			f, err := os.Create(path)
			if err == nil {
				err = errors.Join(f.Truncate(size), f.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
			if out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			s, deviceBytes, err := readSuperblock(path, fsType)
			if err != nil || deviceBytes != size || !s.fills(size) || s.hasErrors {
				t.Errorf("%+v of %d bytes, %v", s, deviceBytes, err)
			}
			if s.fills(size + 64<<20) {
				t.Error("fills a larger device")
			}
			for _, other := range []string{"ext4", "xfs", "btrfs"} {
				if _, _, err := readSuperblock(path, other); (err == nil) != (other == fsType) {
					t.Errorf("as %s: %v", other, err)
				}
			}
		})
	}
}

func TestSuperblock_DamagedExt4IsNoticed(t *testing.T) {
	b := make([]byte, 1024)
	binary.LittleEndian.PutUint32(b[4:], 1000)
	binary.LittleEndian.PutUint16(b[56:], 0xEF53)
	if s, ok := parseExt4(b); !ok || s.hasErrors || s.sizeBytes != 1000<<10 {
		t.Errorf("%+v, %v", s, ok)
	}
	b[58] = 3 // clean, and errors were noted
	if s, _ := parseExt4(b); !s.hasErrors {
		t.Error("the error flag is not seen")
	}
}

// Whatever is on the device, reading a superblock neither panics nor overflows.
func TestSuperblock_AnyBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fsType := rapid.SampledFrom([]string{"ext4", "xfs", "btrfs"}).Draw(t, "type")
		layout, _ := layoutOf(fsType)
		b := make([]byte, layout.length)
		for i, c := range rapid.SliceOfN(rapid.Byte(), 0, 512).Draw(t, "bytes") {
			b[i] = c
		}
		switch fsType { // the magic, or nothing else would be looked at
		case "ext4":
			copy(b[56:], "\x53\xEF")
		case "xfs":
			copy(b, "XFSB")
		default:
			copy(b[64:], "_BHRfS_M")
		}
		if s, ok := layout.parse(b); ok && (s.sizeBytes < 0 || s.unitBytes <= 0) {
			t.Errorf("%+v", s)
		}
	})
}
