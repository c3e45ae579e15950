package image

import (
	"bytes"
	"context"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

const (
	root = "../.."
	// baseImage is what the Dockerfile begins from.
	baseImage = "docker.io/library/debian:bookworm-slim"
	// baseMaxAge bounds how long the base made from Debian's packages is used again.
	baseMaxAge = 7 * 24 * time.Hour
)

// store is a container storage of its own, so that nothing is pulled and nothing stays.
type store struct{ dir string }

// buildah runs buildah on the store, without user namespaces or an engine.
func (s store) buildah(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "buildah", append([]string{
		"--root", filepath.Join(s.dir, "root"), "--runroot", filepath.Join(s.dir, "run"), "--storage-driver", "vfs",
	}, args...)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "BUILDAH_ISOLATION=chroot")
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return "", &buildahError{args: args, err: err, output: out.String() + stderr.String()}
	}
	return strings.TrimSpace(out.String()), nil
}

func (s store) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := s.buildah(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

type buildahError struct {
	args   []string
	err    error
	output string
}

func (e *buildahError) Error() string {
	return "buildah " + strings.Join(e.args, " ") + ": " + e.err.Error() + "\n" + e.output
}

func (e *buildahError) Unwrap() error { return e.err }

// TestImage builds the image of this machine's architecture and looks into it.
func TestImage(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("building an image without an engine needs root")
	}
	for _, tool := range []string{"buildah", "mmdebstrap"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed (hack/install-deps image)", tool)
		}
	}
	s := store{dir: t.TempDir()}
	s.makeBase(t)
	makeBuild(t, runtime.GOARCH)
	s.must(t, "build", "--pull-never", "--platform", "linux/"+runtime.GOARCH,
		"--build-arg", "VERSION=v0.0.0-test", "-t", "csi-local", "-f", "Dockerfile", ".")
	container := s.must(t, "from", "--pull-never", "csi-local")
	t.Run("commands", func(t *testing.T) { testCommands(t, s, container) })
	t.Run("configuration", func(t *testing.T) { testConfiguration(t, s) })
	t.Run("leftovers", func(t *testing.T) { testLeftovers(t, s, container) })
}

// makeBase puts the base image into the store; making it takes a minute or two, so it is
// kept in the user's cache for a while.
func (s store) makeBase(t *testing.T) {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = t.TempDir()
	}
	tar := filepath.Join(cache, "csi-local", "debian-bookworm-"+runtime.GOARCH+".tar")
	if info, err := os.Stat(tar); err != nil || time.Since(info.ModTime()) > baseMaxAge {
		if err := os.MkdirAll(filepath.Dir(tar), 0o755); err != nil {
			t.Fatal(err)
		}
		fresh := tar + ".new.tar"
		out, err := exec.CommandContext(t.Context(), "mmdebstrap", "--variant=minbase", "bookworm", fresh).CombinedOutput()
		if err != nil {
			t.Fatalf("mmdebstrap: %v\n%s", err, out)
		}
		if err := os.Rename(fresh, tar); err != nil {
			t.Fatal(err)
		}
	}
	scratch := s.must(t, "from", "scratch")
	s.must(t, "add", scratch, tar, "/")
	s.must(t, "commit", "--rm", scratch, baseImage)
}

func makeBuild(t *testing.T, arches string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "make", "build-all", "ARCHES="+arches, "VERSION=v0.0.0-test")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make build-all: %v\n%s", err, out)
	}
}

// testCommands runs each program that csi-local starts, and csi-local itself.
func testCommands(t *testing.T, s store, container string) {
	tests := []struct {
		name    string
		command []string
		want    string
	}{
		{"csi-local", []string{"/usr/local/bin/csi-local", "version"}, "v0.0.0-test"},
		{"lvm", []string{"lvm", "version"}, "LVM version"},
		{"dmsetup", []string{"dmsetup", "--version"}, ""},
		{"thin_check", []string{"thin_check", "--version"}, "."},
		{"thin_repair", []string{"thin_repair", "--version"}, "."},
		{"mkfs.ext4", []string{"sh", "-c", "mkfs.ext4 -V 2>&1"}, "mke2fs"},
		{"mkfs.xfs", []string{"mkfs.xfs", "-V"}, "mkfs.xfs version"},
		{"mkfs.btrfs", []string{"mkfs.btrfs", "--version"}, "mkfs.btrfs"},
		{"resize2fs", []string{"sh", "-c", "command -v resize2fs"}, "resize2fs"},
		{"dumpe2fs", []string{"sh", "-c", "dumpe2fs -V 2>&1"}, "dumpe2fs"},
		{"xfs_growfs", []string{"xfs_growfs", "-V"}, "xfs_growfs version"},
		{"xfs_io", []string{"xfs_io", "-V"}, "xfs_io version"},
		{"btrfs", []string{"btrfs", "--version"}, "btrfs-progs"},
		{"fsck", []string{"fsck", "--version"}, "util-linux"},
		{"e2fsck", []string{"sh", "-c", "e2fsck -V 2>&1"}, "e2fsck"},
		{"xfs_repair", []string{"xfs_repair", "-V"}, "xfs_repair version"},
		{"blkid", []string{"blkid", "--version"}, "util-linux"},
		{"mount", []string{"mount", "--version"}, "util-linux"},
		{"umount", []string{"umount", "--version"}, "util-linux"},
		{"modprobe", []string{"modprobe", "--version"}, "kmod"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{"run", "--isolation", "chroot", container, "--"}, tt.command...)
			out, err := s.buildah(t.Context(), args...)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out, tt.want) {
				t.Errorf("printed %q, want it to contain %q", out, tt.want)
			}
		})
	}
}

func testConfiguration(t *testing.T, s store) {
	inspect := func(format string) string {
		return s.must(t, "inspect", "--type", "image", "--format", format, "csi-local")
	}
	tests := []struct{ name, format, want string }{
		{"entrypoint", "{{.OCIv1.Config.Entrypoint}}", "[/usr/local/bin/csi-local]"},
		{"architecture", "{{.OCIv1.Architecture}}", runtime.GOARCH},
		{"licence", `{{index .OCIv1.Config.Labels "org.opencontainers.image.licenses"}}`, "Apache-2.0"},
		{"version", `{{index .OCIv1.Config.Labels "org.opencontainers.image.version"}}`, "v0.0.0-test"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := inspect(tt.format); got != tt.want {
				t.Errorf("%s is %q, want %q", tt.name, got, tt.want)
			}
		})
	}
}

// testLeftovers looks for what an image need not carry.
func testLeftovers(t *testing.T, s store, container string) {
	mount := s.must(t, "mount", container)
	for _, dir := range []string{"var/lib/apt/lists", "var/cache/apt/archives", "var/log"} {
		entries, err := os.ReadDir(filepath.Join(mount, dir))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for _, entry := range entries {
			t.Errorf("/%s/%s was left in the image", dir, entry.Name())
		}
	}
	if _, err := os.Stat(filepath.Join(mount, "usr/share/doc/csi-local/LICENSE")); err != nil {
		t.Errorf("the licence is not in the image: %v", err)
	}
}

// TestBinaries builds the binaries of both architectures as the image takes them.
func TestBinaries(t *testing.T) {
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	for arch, machine := range machines {
		t.Run(arch, func(t *testing.T) {
			makeBuild(t, arch)
			file, err := elf.Open(filepath.Join(root, "bin", arch, "csi-local"))
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			if file.Machine != machine {
				t.Errorf("machine is %v, want %v", file.Machine, machine)
			}
			for _, p := range file.Progs {
				if p.Type == elf.PT_INTERP {
					t.Error("the binary is linked dynamically")
				}
			}
		})
	}
}
