package images

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
)

// baseImage is what our Dockerfile begins from.
const baseImage = "docker.io/library/debian:bookworm-slim"

// own is one of our images, from its Dockerfile as it ships. compile makes the program.
func (b *builder) own(name, dockerfile string, compile func(file string) error) (Image, error) {
	program, version, _ := strings.Cut(path.Base(name), ":")
	// A folder that stands for the repository, which others may build in at the same time.
	contextDir := filepath.Join(b.cache, program)
	binary := filepath.Join(contextDir, "bin", runtime.GOARCH, program)
	image := Image{Names: []string{name}, Archive: filepath.Join(b.cache, program+".tar")}
	if err := os.MkdirAll(filepath.Dir(binary), 0o755); err != nil {
		return image, err
	}
	if err := compile(binary); err != nil {
		return image, err
	}
	for _, file := range []string{dockerfile, "LICENSE"} {
		content, err := os.ReadFile(filepath.Join(b.repository, file))
		if err != nil {
			return image, err
		}
		if err := os.WriteFile(filepath.Join(contextDir, file), content, 0o644); err != nil {
			return image, err
		}
	}
	var err error
	image.Key, err = hashFiles([]string{binary, filepath.Join(contextDir, dockerfile), filepath.Join(contextDir, "LICENSE")}, name)
	if err != nil {
		return image, err
	}
	return image, b.make(image.Archive, image.Key, func(partial string) error {
		b.sayf("building %s from %s", name, dockerfile)
		if err := b.base(); err != nil {
			return err
		}
		// Layers are kept, or Debian's packages would be fetched for each change of the program.
		err := b.buildah("build", "--pull-never", "--layers", "--platform", "linux/"+runtime.GOARCH, "--build-arg", "VERSION="+version,
			"-t", name, "-f", filepath.Join(contextDir, dockerfile), contextDir)
		if err == nil {
			// Layers in this format are named by what is in them, so those that the nodes' disk
			// has already are not imported again.
			err = b.buildah("push", name, "oci-archive:"+partial+":"+name)
		}
		if err == nil {
			err = b.buildah("rmi", "--prune") // what the new one has replaced
		}
		return err
	})
}

func (b *builder) buildah(args ...string) error {
	if b.driver == "" {
		// It needs the kernel's help, which not every container gives. Without it each layer
		// is a copy of all below it.
		b.driver = "overlay"
		if err := b.buildah("info"); err != nil {
			b.driver = "vfs"
		}
	}
	_, err := b.output(b.cache, "buildah", append([]string{
		"--root", filepath.Join(b.cache, b.driver), "--runroot", filepath.Join(b.cache, "run-"+b.driver), "--storage-driver", b.driver,
	}, args...)...)
	return err
}

// base puts the base image into the store, if it is not there, from Debian's packages.
func (b *builder) base() error {
	if b.buildah("inspect", "--type", "image", baseImage) == nil {
		return nil
	}
	// The image's own test keeps it there, too.
	rootfs := filepath.Join(filepath.Dir(b.cache), "debian-bookworm-"+runtime.GOARCH+".tar")
	if _, err := os.Stat(rootfs); err != nil {
		b.sayf("making the base image from Debian's packages; this takes a minute or two, once")
		partial := rootfs + ".new.tar"
		if err := b.run("/", "mmdebstrap", "--variant=minbase", "bookworm", partial); err != nil {
			return err
		}
		if err := os.Rename(partial, rootfs); err != nil {
			return err
		}
	}
	const container = "base"
	for _, args := range [][]string{
		{"from", "--name", container, "scratch"}, {"add", container, rootfs, "/"}, {"commit", "--rm", container, baseImage},
	} {
		if err := b.buildah(args...); err != nil {
			return fmt.Errorf("base image: %w", err)
		}
	}
	return nil
}
