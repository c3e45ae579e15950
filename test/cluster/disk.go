package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/csi-local/csi-local/test/cluster/guest"
	"github.com/csi-local/csi-local/test/cluster/images"
	"github.com/csi-local/csi-local/test/vm"
)

// dataDiskBytes is a node's disk for containerd and kubelet. The file is sparse.
const dataDiskBytes = 16 << 30

// importPatience bounds the boot that fills a disk with images.
const importPatience = 10 * time.Minute

// nodeDisk is a disk with the images in containerd's store, so that nodes need not import
// them. When some have changed, the last disk gets these.
func nodeDisk(ctx context.Context, folder string, all []images.Image, progress io.Writer) (string, error) {
	disk, note := filepath.Join(folder, "node.img"), filepath.Join(folder, "node.json")
	have := map[string]string{}
	if content, err := os.ReadFile(note); err == nil {
		if _, err := os.Stat(disk); err == nil {
			_ = json.Unmarshal(content, &have) // what cannot be read is made again
		}
	}
	want := map[string]string{}
	var missing []string
	for _, image := range all {
		want[image.Archive] = image.Key
		if have[image.Archive] != image.Key {
			missing = append(missing, image.Archive)
		}
	}
	if len(missing) == 0 {
		return disk, nil
	}
	began := time.Now()
	partial := disk + ".partial"
	err := error(nil)
	if len(have) > 0 {
		err = copySparse(ctx, disk, partial)
	} else {
		err = makeDisk(ctx, partial)
	}
	if err != nil {
		return "", err
	}
	if err := importImages(ctx, folder, partial, missing); err != nil {
		return "", err
	}
	content, err := json.Marshal(want)
	if err != nil {
		return "", err
	}
	// The note must never say more than the disk has.
	if err := os.RemoveAll(note); err != nil {
		return "", err
	}
	if err := os.Rename(partial, disk); err != nil {
		return "", err
	}
	_, _ = fmt.Fprintf(progress, "cluster: put %d images on the nodes' disk in %.0f s\n", len(missing), time.Since(began).Seconds())
	return disk, os.WriteFile(note, content, 0o644)
}

func makeDisk(ctx context.Context, path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := errors.Join(file.Truncate(dataDiskBytes), file.Close()); err != nil {
		return err
	}
	return output(exec.CommandContext(ctx, "mkfs.ext4", "-q", "-F", "-E", "nodiscard", path))
}

func copySparse(ctx context.Context, from, to string) error {
	return output(exec.CommandContext(ctx, "cp", "--reflink=auto", "--sparse=always", from, to))
}

// output runs a command; what it prints is the error's text.
func output(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}

// importImages boots a kernel with the disk and nothing else.
func importImages(ctx context.Context, folder, disk string, archives []string) error {
	spec := filepath.Join(folder, "import.json")
	if err := (guest.Spec{Import: archives}).Write(spec); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var log bytes.Buffer
	machine, err := vm.Start(ctx, vm.Options{
		Command: []string{self}, Env: []string{guest.EnvSpec + "=" + spec},
		Disks: []vm.Disk{{File: disk}}, MemoryMiB: nodeMemoryMiB, Backend: vm.UML, Timeout: importPatience,
		Stdout: &log, Stderr: &log, Log: &log,
	})
	if err != nil {
		return err
	}
	status, err := machine.Wait()
	if err == nil && status != 0 {
		err = fmt.Errorf("exit status %d", status)
	}
	if err != nil {
		return fmt.Errorf("importing images on a node's disk: %w\n%s", err, &log)
	}
	return nil
}
