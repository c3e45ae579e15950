package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Run is the whole of a node's life, from the bare kernel. It returns when the images of
// the spec are imported, or not at all.
func Run(ctx context.Context, specPath string) error {
	s, err := readSpec(specPath)
	if err != nil {
		return err
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	containerd, err := supervise(ctx, "containerd", os.Stderr, "/usr/bin/containerd", "--config", containerdConfig, "--log-level", "warn")
	if err != nil {
		return err
	}
	if err := waitSocket(ctx, containerdSocket); err != nil {
		return err
	}
	if len(s.Import) > 0 {
		for _, archive := range s.Import {
			if err := command(ctx, "ctr", "--namespace", "k8s.io", "images", "import", archive); err != nil {
				return err
			}
		}
		containerd.stop()
		return unix.Unmount(dataFolder, unix.MNT_DETACH)
	}
	if _, err := supervise(ctx, "kubelet", os.Stdout, s.Kubelet, s.kubeletFlags()...); err != nil {
		return err
	}
	return serve(ctx, Folder)
}

const (
	dataDisk   = "/dev/ubdb"
	dataFolder = "/var/lib/node"
)

// keptFolders are on the data disk, as they are on the disk of a real node.
func keptFolders() []string {
	return []string{"/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"}
}

func (s Spec) prepare(ctx context.Context) error {
	steps := []func(context.Context) error{
		mountModules, mountData, enableControllers, fakeClockSpeed, s.writeFiles,
	}
	if len(s.Import) == 0 {
		steps = append(steps, s.connect, s.makeVolumeGroups)
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// mountModules puts the modules where containers find them that are given /lib/modules: a
// link out of it leads nowhere for them.
func mountModules(context.Context) error {
	links, err := filepath.Glob("/lib/modules/*")
	if err != nil {
		return err
	}
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil {
			continue // no link
		}
		if err := errors.Join(os.Remove(link), os.Mkdir(link, 0o755)); err != nil {
			return err
		}
		if err := bind(target, link); err != nil {
			return err
		}
	}
	return nil
}

func mountData(context.Context) error {
	if err := os.MkdirAll(dataFolder, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(dataDisk, dataFolder, "ext4", 0, ""); err != nil {
		return fmt.Errorf("mount %s: %w", dataDisk, err)
	}
	for _, folder := range keptFolders() {
		kept := filepath.Join(dataFolder, filepath.Base(folder))
		if err := errors.Join(os.MkdirAll(kept, 0o755), os.MkdirAll(folder, 0o755)); err != nil {
			return err
		}
		if err := bind(kept, folder); err != nil {
			return err
		}
	}
	return nil
}

func bind(from, to string) error {
	if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount %s on %s: %w", from, to, err)
	}
	return nil
}

// enableControllers hands resource controllers down to the cgroups of pods.
func enableControllers(context.Context) error {
	return os.WriteFile("/sys/fs/cgroup/cgroup.subtree_control", []byte("+cpu +io +memory +pids"), 0o644)
}

// fakeClockSpeed gives kubelet a number that it insists on and user-mode Linux does not have.
func fakeClockSpeed(context.Context) error {
	const path, copied = "/proc/cpuinfo", "/run/cpuinfo"
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text := strings.TrimRight(string(content), "\n") + "\ncpu MHz\t\t: 2000.000\n\n"
	if err := os.WriteFile(copied, []byte(text), 0o444); err != nil {
		return err
	}
	return bind(copied, path)
}

// connect sends everything through the host, other nodes included.
func (s Spec) connect(ctx context.Context) error {
	if err := unix.Sethostname([]byte(s.Name)); err != nil {
		return err
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return err
	}
	const device = "vec0"
	return errors.Join(
		command(ctx, "ip", "route", "flush", "dev", device),
		command(ctx, "ip", "route", "add", s.Gateway, "dev", device, "src", s.Address),
		command(ctx, "ip", "route", "add", "default", "via", s.Gateway, "src", s.Address),
	)
}

// makeVolumeGroups does at the first boot what docs/install.md asks of an administrator.
func (s Spec) makeVolumeGroups(ctx context.Context) error {
	done := filepath.Join(dataFolder, "volume-groups-made")
	if _, err := os.Stat(done); err == nil {
		return nil
	}
	disks := map[string][]string{}
	for i, group := range s.VolumeGroups {
		if group != "" {
			disks[group] = append(disks[group], Disk(i))
		}
	}
	for group, devices := range disks {
		if err := command(ctx, "vgcreate", append([]string{"--quiet", "--metadatasize", "16m", group}, devices...)...); err != nil {
			return err
		}
	}
	return os.WriteFile(done, nil, 0o644)
}

// Disk is the device of a disk of Spec.VolumeGroups, by its index.
func Disk(index int) string { return fmt.Sprintf("/dev/ubd%c", 'c'+index) }

// command runs a command to its end; what it prints is the error's text.
func command(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// waitSocket returns when somebody listens there.
func waitSocket(ctx context.Context, path string) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
		_ = unix.Close(fd)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
