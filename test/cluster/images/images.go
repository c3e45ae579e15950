package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Test is the image of pods in tests: a shell and the usual commands.
const Test = "docker.io/library/busybox:1.35"

const (
	// testLatest is what a manifest means that names busybox without a tag.
	testLatest = "docker.io/library/busybox:latest"
	pause      = "registry.k8s.io/pause:3.10"
)

// Image is an archive with one image.
type Image struct {
	// Names are those it is imported under.
	Names []string `json:"names"`
	// Archive is its file.
	Archive string `json:"archive"`
	// Key is another one whenever the content is.
	Key string `json:"key"`
}

// builder makes images in a folder of the user's cache.
type builder struct {
	ctx        context.Context
	repository string
	cache      string
	progress   io.Writer
	driver     string // of buildah's store; empty until it is chosen
}

// All makes every image that the manifests in deploy/manifests name, and those of pods in
// tests. progress is told what takes long. Only one process at a time may be in it.
func All(ctx context.Context, progress io.Writer) ([]Image, error) {
	repository, err := Repository(ctx)
	if err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	b := &builder{ctx: ctx, repository: repository, cache: filepath.Join(cache, "csi-local", "images"), progress: progress}
	if err := os.MkdirAll(b.cache, 0o755); err != nil {
		return nil, err
	}
	names, err := b.named()
	if err != nil {
		return nil, err
	}
	images, err := b.forTests()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		image, err := b.build(name)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", name, err)
		}
		images = append(images, image)
	}
	return images, nil
}

// Repository is the folder of our sources.
func Repository(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/csi-local/csi-local").Output()
	if err != nil {
		return "", fmt.Errorf("go list, to find the repository: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// named lists what the manifests name, each once.
func (b *builder) named() ([]string, error) {
	files, err := filepath.Glob(filepath.Join(b.repository, "deploy/manifests/*/csi-local.yaml"))
	if err != nil {
		return nil, err
	}
	line := regexp.MustCompile(`(?m)^\s+image: (\S+)$`)
	var names []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, match := range line.FindAllSubmatch(content, -1) {
			names = append(names, string(match[1]))
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%d manifests name no image", len(files))
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func (b *builder) build(name string) (Image, error) {
	program, version, _ := strings.Cut(path.Base(name), ":")
	switch program {
	case "csi-local":
		return b.own(name, "Dockerfile", func(file string) error {
			return b.run(b.repository, "go", "build", "-trimpath", "-ldflags", "-s -w -X main.version="+version, "-o", file, "./cmd/csi-local")
		})
	case "csi-local-scheduler":
		return b.own(name, "Dockerfile.scheduler", func(file string) error {
			return b.run(b.repository, "make", "--no-print-directory", "build-scheduler", "SCHEDULER_BIN="+file, "VERSION="+version, "COMMIT=unknown")
		})
	case "csi-provisioner":
		return b.sidecar(name, program, "github.com/kubernetes-csi/external-provisioner/v6", version)
	case "csi-resizer":
		return b.sidecar(name, program, "github.com/kubernetes-csi/external-resizer/v2", version)
	}
	return Image{}, fmt.Errorf("the manifests name it, and nobody has said what it is made from")
}

// run says what the command had to say when it fails.
func (b *builder) run(dir, name string, args ...string) error {
	_, err := b.output(dir, name, args...)
	return err
}

func (b *builder) output(dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(b.ctx, name, args...)
	cmd.Dir = dir
	// The caller's flags are for the main module.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly -buildvcs=false", "GOWORK=off", "BUILDAH_ISOLATION=chroot")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// sayf tells what is going to take a while.
func (b *builder) sayf(format string, args ...any) {
	_, _ = fmt.Fprintf(b.progress, "cluster: "+format+"\n", args...)
}

// made tells whether the archive was made from what has this key.
func (b *builder) made(archive, key string) bool {
	noted, err := os.ReadFile(archive + ".key")
	if err != nil || string(noted) != key {
		return false
	}
	_, err = os.Stat(archive)
	return err == nil
}

// make leaves an archive with its key, or none.
func (b *builder) make(archive, key string, write func(partial string) error) error {
	if b.made(archive, key) {
		return nil
	}
	began := time.Now()
	partial := archive + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	if err := write(partial); err != nil {
		return err
	}
	// Never a key beside an archive that it does not belong to.
	if err := os.RemoveAll(archive + ".key"); err != nil {
		return err
	}
	if err := os.Rename(partial, archive); err != nil {
		return err
	}
	b.sayf("made %s in %.0f s", filepath.Base(archive), time.Since(began).Seconds())
	return os.WriteFile(archive+".key", []byte(key), 0o644)
}

// hashFiles is of the files' contents and of the words.
func hashFiles(files []string, words ...string) (string, error) {
	hash := sha256.New()
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			return "", err
		}
		_, err = io.Copy(hash, file)
		_ = file.Close()
		if err != nil {
			return "", err
		}
	}
	_, _ = fmt.Fprint(hash, words)
	return hex.EncodeToString(hash.Sum(nil)), nil
}
