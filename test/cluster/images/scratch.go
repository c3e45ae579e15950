package images

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// format is a word of each key: another one has all images of this file made again.
const format = "2"

// start is what a container runs: the arguments of a pod take the place of cmd.
type start struct{ entrypoint, cmd []string }

// layerFile is a file, a folder (its name ends with a slash), or a symbolic link of a layer.
type layerFile struct {
	name    string
	content []byte
	link    string
}

// sidecar is an image of one static program, from its Go module at the version.
func (b *builder) sidecar(name, program, module, version string) (Image, error) {
	archive := filepath.Join(b.cache, program+"-"+version+".tar")
	key := strings.Join([]string{format, module, version, name, runtime.GOARCH}, " ")
	image := Image{Names: []string{name}, Archive: archive, Key: key}
	return image, b.make(archive, key, func(partial string) error {
		b.sayf("building %s %s from its Go module; on two cores this takes up to 10 minutes, once", program, version)
		binary := filepath.Join(b.cache, program)
		defer func() { _ = os.Remove(binary) }() // it is in the archive
		if err := b.buildModule(module, version, program, binary); err != nil {
			return err
		}
		content, err := os.ReadFile(binary)
		if err != nil {
			return err
		}
		return writeArchive(partial, image.Names, start{entrypoint: []string{"/" + program}}, []layerFile{{name: program, content: content}})
	})
}

// buildModule builds in the module itself: its replace directives, which pin other
// versions of Kubernetes than ours, hold nowhere else.
func (b *builder) buildModule(module, version, program, to string) error {
	download := exec.CommandContext(b.ctx, "go", "mod", "download", "-json", module+"@"+version)
	download.Env = append(os.Environ(), "GOFLAGS=")
	out, err := download.Output()
	if err != nil {
		return fmt.Errorf("go mod download %s@%s: %w\n%s", module, version, err, out)
	}
	var answer struct{ Dir string }
	if err := json.Unmarshal(out, &answer); err != nil {
		return err
	}
	return b.run(answer.Dir, "go", "build", "-ldflags", "-s -w -X main.version="+version, "-o", to, "./cmd/"+program)
}

// forTests are the images of pods and of their sandboxes.
func (b *builder) forTests() ([]Image, error) {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return nil, errors.Join(err, errors.New("install busybox-static (hack/install-deps cluster)"))
	}
	content, err := os.ReadFile(busybox)
	if err != nil {
		return nil, err
	}
	key, err := hashFiles([]string{busybox}, format)
	if err != nil {
		return nil, err
	}
	test := Image{Names: []string{Test, testLatest}, Archive: filepath.Join(b.cache, "busybox.tar"), Key: key}
	err = b.make(test.Archive, key, func(partial string) error {
		applets, err := b.output("/", busybox, "--list")
		if err != nil {
			return err
		}
		files := []layerFile{
			{name: "bin/"}, {name: "tmp/"}, {name: "etc/"}, {name: "bin/busybox", content: content},
			{name: "etc/passwd", content: []byte("root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")},
			{name: "etc/group", content: []byte("root:x:0:\nnogroup:x:65534:\n")},
		}
		for applet := range strings.FieldsSeq(applets) {
			if applet != "busybox" {
				files = append(files, layerFile{name: "bin/" + applet, link: "busybox"})
			}
		}
		return writeArchive(partial, test.Names, start{cmd: []string{"sh"}}, files)
	})
	if err != nil {
		return nil, err
	}
	// A sandbox needs a process that does nothing.
	sandbox := Image{Names: []string{pause}, Archive: filepath.Join(b.cache, "pause.tar"), Key: key}
	err = b.make(sandbox.Archive, key, func(partial string) error {
		return writeArchive(partial, sandbox.Names, start{entrypoint: []string{"/busybox", "sleep", "infinity"}}, []layerFile{{name: "busybox", content: content}})
	})
	return []Image{sandbox, test}, err
}

// writeArchive writes a docker-archive of one layer.
func writeArchive(file string, names []string, run start, files []layerFile) error {
	layer, err := layerTar(files)
	if err != nil {
		return err
	}
	digest := sha256.Sum256(layer)
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": run.entrypoint, "Cmd": run.cmd, "Env": []string{"PATH=/bin"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(digest[:])}},
	})
	if err != nil {
		return err
	}
	const configName, layerName = "config.json", "layer.tar"
	manifest, err := json.Marshal([]map[string]any{{"Config": configName, "RepoTags": names, "Layers": []string{layerName}}})
	if err != nil {
		return err
	}
	archive, err := layerTar([]layerFile{
		{name: "manifest.json", content: manifest}, {name: configName, content: config}, {name: layerName, content: layer},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(file, archive, 0o644)
}

// layerTar is the same for the same files, so that the layer's digest is.
func layerTar(files []layerFile) ([]byte, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: 0o755, Size: int64(len(f.content)), Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		switch {
		case f.link != "":
			header.Typeflag, header.Linkname = tar.TypeSymlink, f.link
		case strings.HasSuffix(f.name, "/"):
			header.Typeflag = tar.TypeDir
		}
		if f.name == "tmp/" {
			header.Mode = 0o1777
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return buffer.Bytes(), err
}
